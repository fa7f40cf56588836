// Serves one model from eight threads. A const model may be called by any number of threads at once, and a result does
// not depend on the number of threads: the answers equal those of a single thread bit for bit.
#include <iostream>
#include <thread>
#include <vector>

#include <heddle/heddle.hpp>

using namespace heddle;

constexpr int vocabulary = 100, longest = 40;

struct Request {
  Tensor<int> ids;  // [N]
  Sequences texts;
};

Request make_request(Random& random) {
  std::vector<int> ids, lengths;
  for (int text = 0; text < 4; ++text) {
    lengths.push_back(1 + static_cast<int>(random.next() % longest));
    for (int t = 0; t < lengths.back(); ++t) ids.push_back(static_cast<int>(random.next() % vocabulary));
  }
  return {Tensor<int>({static_cast<Index>(ids.size())}, ids), Sequences::packed(lengths)};
}

struct Classifier {
  nn::Embedding<> embedding;
  nn::SinusoidalPositions<> positions;
  nn::Encoder<> encoder;
  nn::Linear<> out;

  // Returns the probability of each class for each text, [B * C].
  std::vector<float> answer(const Request& request) const {
    const NoGrad no_grad;                                                                   // affects this thread only
    const Tensor<float> x = positions.embed(embedding, request.ids, request.texts);         // [N, D]
    const Tensor<float> logits = out(mean_rows(encoder(x, request.texts), request.texts));  // [B, C]
    return softmax(logits).host();
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding), f("positions", self.positions), f("encoder", self.encoder), f("out", self.out);
  }
};

int main() {
  constexpr std::size_t thread_count = 8;
  Random random(1);
  const Classifier model{{vocabulary, 32, random}, {longest, 32}, {2, {.D = 32, .heads = 4}, random}, {32, 3, random}};
  std::vector<Request> requests;
  for (int r = 0; r < 200; ++r) requests.push_back(make_request(random));
  std::vector<std::vector<float>> expected;
  for (const Request& request : requests) expected.push_back(model.answer(request));
  std::cout << "one thread answered " << expected.size() << " requests\n";

  std::vector<std::vector<float>> answers(requests.size());
  std::vector<std::thread> threads;
  for (std::size_t first = 0; first < thread_count; ++first)
    threads.emplace_back([&, first] {
      for (std::size_t r = first; r < requests.size(); r += thread_count) answers[r] = model.answer(requests[r]);
    });
  for (std::thread& thread : threads) thread.join();

  std::size_t equal = 0;
  for (std::size_t r = 0; r < requests.size(); ++r) equal += answers[r] == expected[r];
  std::cout << "answers of eight threads that equal those of one thread: " << equal << " of " << requests.size()
            << '\n';
  if (equal == requests.size()) return 0;
  std::cerr << "threads: expected all answers to be equal\n";
  return 1;
}
