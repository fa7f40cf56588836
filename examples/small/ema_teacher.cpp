// Trains with four labelled texts and many unlabelled ones (Tarvainen and Valpola 2017). The teacher is the exponential
// moving average of the student. The student is trained with dropout to predict the teacher's output without dropout.
#include <iostream>
#include <vector>

#include <heddle/heddle.hpp>

using namespace heddle;

constexpr int topics = 2, words_per_topic = 30, text_length = 6;

struct Batch {
  Tensor<int> ids;       // [N]
  Tensor<Index> labels;  // [B], the topic whose words the text has
  Sequences texts;
};

Batch make_batch(int count, Random& random) {
  std::vector<int> ids;
  std::vector<Index> labels;
  for (int text = 0; text < count; ++text) {
    const int first_word = text % topics * words_per_topic;
    for (int t = 0; t < text_length; ++t) ids.push_back(first_word + static_cast<int>(random.next() % words_per_topic));
    labels.push_back(text % topics);
  }
  return {Tensor<int>({count * text_length}, ids), Tensor<Index>({count}, labels),
          Sequences::packed(std::vector<int>(labels.size(), text_length))};
}

struct Classifier {
  nn::Embedding<> embedding;
  nn::Encoder<> encoder;
  nn::Linear<> out;

  explicit Classifier(Random& random)
      : embedding(topics * words_per_topic, 32, random),
        encoder(1, {.D = 32, .heads = 2, .dropout = 0.3}, random),
        out(32, topics, random) {}
  Classifier(const Classifier& other, Cloning& c)
      : embedding(c(other.embedding)), encoder(c(other.encoder)), out(c(other.out)) {}

  Tensor<float> operator()(const Batch& batch, Random* random = nullptr) const {
    const Tensor<float> x = dropout(embedding(batch.ids), 0.5, random);   // [N, D]
    return out(mean_rows(encoder(x, batch.texts, random), batch.texts));  // [B, C]
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding), f("encoder", self.encoder), f("out", self.out);
  }
};

// Returns the teacher's accuracy on new texts. With a weight of 0 the unlabelled texts have no effect.
float train(double consistency_weight) {
  Random random(1);
  const Batch labelled = make_batch(4, random), new_texts = make_batch(500, random);
  Classifier student(random);
  Classifier teacher = clone(student);
  optim::AdamW optimizer(student, {.lr = 3e-3});
  for (int step = 1; step <= 400; ++step) {
    const Batch unlabelled = make_batch(32, random);
    const Tensor<float> target = detach(softmax(teacher(unlabelled)));  // [B, C]
    const Tensor<float> consistency = mse_loss(softmax(student(unlabelled, &random)), target);
    const Tensor<float> loss = cross_entropy(student(labelled, &random), labelled.labels);
    backward(loss + consistency_weight * consistency);
    optimizer.step();
    update_average(teacher, student, 0.95);
    if (step % 200 == 0)
      std::cout << "step " << step << "  loss " << loss.item() << "  consistency " << consistency.item() << '\n';
  }
  const NoGrad no_grad;
  return mean(cast<float>(argmax(teacher(new_texts), -1) == new_texts.labels)).item();
}

int main() {
  const float labels_alone = train(0), with_teacher = train(10);
  std::cout << "accuracy with labels alone: " << labels_alone << ", with the teacher: " << with_teacher << '\n';
  if (with_teacher >= 0.95f) return 0;
  std::cerr << "ema_teacher: expected an accuracy of at least 0.95 with the teacher\n";
  return 1;
}
