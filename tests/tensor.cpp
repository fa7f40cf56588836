#include <heddle/core/create.hpp>
#include <heddle/core/host_copy.hpp>
#include <heddle/core/print.hpp>
#include <heddle/cpu/eigen.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/reduce.hpp>

#include "catch.hpp"
#include "harness/devices.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {
template <class T>
std::string printed(const Tensor<T>& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}
}  // namespace

TEST_CASE("Tensor: construction of every element type") {
  const Tensor<float> x({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x.shape() == Shape{2, 3});
  CHECK((x.rank() == 2 && x.size() == 6 && x.dim(-1) == 3 && x.device() == Device::cpu));
  CHECK(x.host() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(Tensor<double>(Shape{}, {0.5}).item() == 0.5);
  CHECK(Tensor<int>({2}, {1, -1}).host()[1] == -1);
  CHECK(Tensor<std::int64_t>({1}, {Index{1} << 40}).item() == Index{1} << 40);
  CHECK(Tensor<bool>({3}, {true, false, true}).host() == std::vector<bool>{true, false, true});
  CHECK(static_cast<float>(Tensor<bf16>({1}, {bf16(1.5f)}).item()) == 1.5f);
  CHECK(Tensor<float>({3, 0}).size() == 0);
  CHECK(Tensor<float>({1, 1, 1, 1, 1, 1, 1, 2}).rank() == 8);
}

TEST_CASE("Tensor: converts to false if it has no data") {
  const Tensor<float> none;
  CHECK_FALSE(none);
  CHECK(none.size() == 0);
  CHECK_THROWS_AS(none.host(), Error);
  CHECK(Tensor<float>({0}));
}

TEST_CASE("Tensor: blocks are aligned to 64 bytes") {
  const auto misaligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 64; };
  for (const Index n : {0, 1, 3, 17, 1000, 100'003}) {
    CHECK(misaligned(Tensor<float>({n}).data()) == 0);
    CHECK(misaligned(Tensor<bool>({n}).data()) == 0);
  }
}

TEST_CASE("Tensor: copies share their block and count its writes together") {
  Tensor<int> a({2}, {1, 2});
  const Tensor<int> b = a;
  CHECK(b.data() == std::as_const(a).data());
  const auto before = b.version();
  a.data()[0] = 7;
  CHECK(b.host()[0] == 7);
  CHECK(b.version() == before + 1);
  CHECK(std::as_const(a).data()[0] == 7);  // a read is not counted
  CHECK(b.version() == before + 1);
}

TEST_CASE("Tensor: leading() and with_shape() return handles to the same block") {
  Tensor<int> x({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor<int> last = x.leading(1, 3), flat = x.with_shape({6});
  x.data()[2] = 30;
  CHECK(last.host() == std::vector<int>{30, 4, 5, 6});
  CHECK(flat.host()[2] == 30);
  CHECK(last.version() == x.version());
  CHECK(x.leading(3, 3).shape() == Shape{0, 2});
  CHECK_THROWS_WITH(x.leading(1, 4), "slice: [1, 4) is not within axis 0 of [3, 2]");
  CHECK_THROWS_AS(Tensor<int>(Shape{}).leading(0, 0), ShapeError);
}

TEST_CASE("Tensor: a block lives until its last handle is destroyed") {
  Tensor<int> row;
  {
    const Tensor<int> x({2, 2}, {1, 2, 3, 4});
    row = x.leading(1, 2);
  }
  CHECK(row.host() == std::vector<int>{3, 4});
}

TEST_CASE("Tensor: memory of the caller is wrapped without a copy") {
  std::vector<float> mine = {1, 2, 3, 4};
  auto x = Tensor<float>::wrap(mine.data(), {2, 2});
  CHECK(x.data() == mine.data());
  mine[3] = 40;
  CHECK(x.host()[3] == 40);
  x.data()[0] = 10;
  CHECK(mine[0] == 10);
  CHECK(Tensor<float>::wrap(nullptr, {0}).size() == 0);
  CHECK_THROWS_WITH(Tensor<float>::wrap(nullptr, {2}), "Tensor::wrap: a null pointer for shape [2]");
}

TEST_CASE("wrap, eigen: row-major matrices, arrays and maps share memory with tensors") {
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> m(2, 3);
  m << 1, 2, 3, 4, 5, 6;
  const auto x = wrap(m);
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.data() == m.data());
  CHECK(x.host() == std::vector<double>{1, 2, 3, 4, 5, 6});

  Eigen::Array<float, 1, 4> fixed(1, 2, 3, 4);
  CHECK(wrap(fixed).shape() == Shape{1, 4});

  std::vector<int> mine = {1, 2, 3, 4};
  Eigen::Map<Eigen::Matrix<int, 2, 2, Eigen::RowMajor>> map(mine.data());
  CHECK(wrap(map).data() == mine.data());

  Tensor<float> y({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  eigen(y).row(3) *= 10;
  CHECK(y.host()[6] == 70);
  const Tensor<float>& constant = y;
  CHECK(eigen(constant).rows() == 4);
  CHECK(eigen(constant).col(1).sum() == 2 + 4 + 6 + 80);
}

TEST_CASE("Tensor: wrong shapes, sizes and devices are errors") {
  CHECK_THROWS_WITH(Tensor<float>({2, 2}, {1, 2, 3}), "Tensor: 3 values given for shape [2, 2] of 4");
  CHECK_THROWS_WITH(Tensor<float>({2, -1}), "Shape: an extent is negative in [2, -1]");
  CHECK_THROWS_WITH((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), "Shape: 9 axes given, at most 8 are supported");
  CHECK_THROWS_WITH((Shape{Index{1} << 32, Index{1} << 31}),
                    "Shape: the number of elements of [4294967296, 2147483648] does not fit in 63 bits");
  CHECK_THROWS_AS(Tensor<double>({Index{1} << 60}),
                  OutOfMemory);  // the number of elements would fit, the number of bytes does not
  CHECK_THROWS_WITH(Tensor<float>({2, 3}).item(), "item: one element expected; the shape is [2, 3]");
  CHECK_THROWS_AS(Tensor<float>({0}).item(), ShapeError);
  CHECK_THROWS_WITH(Tensor<float>({2, 3}).dim(2), "axis 2 does not exist in shape [2, 3]");
#ifndef HEDDLE_CUDA
  CHECK_THROWS_WITH(Tensor<float>({2}, Device::cuda),
                    "Tensor: this build has no CUDA backend; configure with -DHEDDLE_CUDA=ON");
#endif
  CHECK_THROWS_WITH(Tensor<float>({2}).with_shape({3}), "reshape: [2] has 2 elements, [3] has 3");
}

TEST_CASE("print: element type, shape, device and values") {
  CHECK(printed(Tensor<float>({2, 3}, {1, -2.5f, 3, 1e-9f, 50, 6})) ==
        "Tensor<float> [2, 3] cpu\n"
        "[[    1,  -2.5,     3],\n"
        " [1e-09,    50,     6]]");
  CHECK(printed(Tensor<double>(Shape{}, {0.5})) == "Tensor<double> [] cpu\n0.5");
  CHECK(printed(Tensor<bf16>({1}, {bf16(1.5f)})) == "Tensor<bf16> [1] cpu\n[1.5]");
  CHECK(printed(Tensor<int>({2, 1, 2}, {1, 2, 3, 4})) == "Tensor<int> [2, 1, 2] cpu\n[[[1, 2]],\n [[3, 4]]]");
  CHECK(printed(Tensor<std::int64_t>({0, 3})) == "Tensor<int64_t> [0, 3] cpu\n[]");
  CHECK(printed(Tensor<std::int64_t>({2, 0})) == "Tensor<int64_t> [2, 0] cpu\n[[],\n []]");
  CHECK(printed(Tensor<bool>({2}, {true, false})) == "Tensor<bool> [2] cpu\n[ true, false]");
  CHECK(printed(Tensor<float>{}) == "Tensor<float> without data");
}

TEST_CASE("print: the middle of long axes is left out") {
  CHECK(printed(arange<int>(1000)) == "Tensor<int> [1000] cpu\n[  0,   1,   2, ..., 997, 998, 999]");
  CHECK(printed(arange<int>(6)) == "Tensor<int> [6] cpu\n[0, 1, 2, 3, 4, 5]");
  CHECK(printed(arange<int>(7)) == "Tensor<int> [7] cpu\n[0, 1, 2, ..., 4, 5, 6]");
  CHECK(printed(arange<int>(16).with_shape({8, 2})) ==
        "Tensor<int> [8, 2] cpu\n"
        "[[ 0,  1],\n"
        " [ 2,  3],\n"
        " [ 4,  5],\n"
        " ...,\n"
        " [10, 11],\n"
        " [12, 13],\n"
        " [14, 15]]");
  CHECK(printed(arange<int>(5).with_shape({5, 1, 1})) == "Tensor<int> [5, 1, 1] cpu\n[[[0]],\n ...,\n [[4]]]");
  CHECK(printed(zeros<bool>({3, 3, 3, 3, 3, 3, 9, 9})).size() < 30'000);
}

TEST_CASE("print: NaN has no sign, and the stream's own format stays as it is") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(printed(Tensor<float>({3}, {nan, -nan, -std::numeric_limits<float>::infinity()})) ==
        "Tensor<float> [3] cpu\n[ nan,  nan, -inf]");
  std::ostringstream out;
  out << std::hex << Tensor<int>({1}, {255}) << ' ' << 255;
  CHECK(out.str() == "Tensor<int> [1] cpu\n[255] ff");
}

TEST_CASE("Tensor: a moved-from tensor is empty, and using it throws") {
  Tensor<float> x({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor<float> y = std::move(x);
  CHECK(y.host() == std::vector<float>{1, 2, 3, 4, 5, 6});
  const char* const message = "an empty tensor is used: it was made without a shape, or moved from";
  const auto is_empty = [&](Tensor<float>& t) {
    CHECK(!t);
    CHECK(t.shape() == Shape{0});
    CHECK_THROWS_WITH(t.data(), message);
    CHECK_THROWS_WITH(std::as_const(t).data(), message);
    CHECK_THROWS_WITH(t.device_data(), message);
    CHECK_THROWS_WITH(t.host(), message);
    CHECK_THROWS_AS(t.item(), Error);
    CHECK_THROWS_WITH(view<1>(t), message);
    CHECK(printed(t) == printed(Tensor<float>()));
  };
  is_empty(x);
  Tensor<float> z({1}, {7});
  z = std::move(const_cast<Tensor<float>&>(y));
  CHECK(z.host()[5] == 6);
  Tensor<float> empty;
  is_empty(empty);
  Tensor<float>& same = z;
  z = std::move(same);
  CHECK(z.host()[5] == 6);
  x = z;  // may be used again
  CHECK(x.host()[0] == 1);
}

TEST_CASE("Tensor: a braced list after the shape holds the values") {
  CHECK_THROWS_WITH((Tensor<float>({3}, {})), "Tensor: 0 values given for shape [3] of 3");
  CHECK((Tensor<float>({0}, {}).size()) == 0);
  CHECK_THROWS_WITH((Tensor<int>({2}, {5})), "Tensor: 1 values given for shape [2] of 2");
}

TEST_CASE("Tensor: an element by its indices") {
  const Tensor<int> x({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x(0, 0) == 1);
  CHECK(x(1, 0) == 4);
  CHECK(x(-1, -1) == 6);
  CHECK(Tensor<float>(Shape{}, {7})() == 7);
  CHECK(Tensor<bool>({2}, {false, true})(1));
  CHECK_THROWS_WITH(x(2, 0), "Tensor: index 2 is outside axis 0 of [2, 3]");
  CHECK_THROWS_WITH(x(0, -4), "Tensor: index -4 is outside axis 1 of [2, 3]");
  CHECK_THROWS_AS(x(0, 3), IndexError);
  CHECK_THROWS_WITH(x(1), "Tensor: 1 indices given for shape [2, 3]");
  Tensor<float> y({1}, {5});
  const auto before = y.version();
  CHECK(y(0) == 5);
  CHECK(y.version() == before);  // a read is not counted as a write
  CHECK_THROWS_AS(Tensor<float>()(0), Error);
}

TEST_CASE("HostCopy: has the values that the tensor had, whatever is written later") {
  on_each_device<float>([](Device device) {
    for (const Index count : {0, 1, 33, 200'000}) {
      const Tensor<float> x = arange<float>(static_cast<double>(count)).to(device);
      const HostCopy copy(x), of_sum(sum(x));
      HostCopy other(cast<bool>(x));
      Tensor<float> written = x;
      if (device == Device::cpu && count > 0) written.data()[0] = 5;
      CHECK(copy.get().device() == Device::cpu);
      CHECK(copy.get().host() == arange<float>(static_cast<double>(count)).host());
      CHECK(of_sum.get().shape().rank() == 0);
      HostCopy moved = std::move(other);
      CHECK(moved.get().host() == cast<bool>(arange<float>(static_cast<double>(count))).host());
    }
    { const HostCopy unread(full<float>({100}, 1, device)); }
    CHECK(HostCopy(full<float>({100}, 2, device)).get().host() == std::vector<float>(100, 2));
  });
}

#ifdef HEDDLE_CUDA
TEST_CASE("HostCopy: get throws what a kernel before the copy reported, and then returns the values") {
  const auto table = ones<float>({5, 1}, Device::cuda);
  const HostCopy copy(embed(Tensor<int>({2}, {1, 5}).to(Device::cuda), table));
  CHECK_THROWS_WITH(copy.get(), "embed: id 5 at position 1 is outside the table's 5 rows");
  CHECK(copy.get().host() == std::vector<float>{1, 0});
}
#endif
