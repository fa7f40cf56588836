// wgmma of every shape, layout and type against plain loops. The host places the operands in an image of shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <utility>

#include "instructions.cuh"
#include "tests.hpp"

namespace heddle::testing::hopper {

namespace {

constexpr int threads = 128, rows_of_a = 64, most_steps = 16, swizzle_atom = 1024;

// The types of elements.
struct Bf16 {
  static constexpr char suffix[] = "k16.f32.bf16.bf16";
  static constexpr int bytes = 2, k = 16;
  static __nv_bfloat16 convert(float x) { return __float2bfloat16(x); }
};
struct F16 {
  static constexpr char suffix[] = "k16.f32.f16.f16";
  static constexpr int bytes = 2, k = 16;
  static __half convert(float x) { return __float2half(x); }
};
struct Tf32 {
  static constexpr char suffix[] = "k8.f32.tf32.tf32";
  static constexpr int bytes = 4, k = 8;
  static float convert(float x) { return x; }
};

template <class Element>
void store_element(u8* to, int x) {
  const auto value = Element::convert(static_cast<float>(x));
  std::memcpy(to, &value, sizeof(value));
}

// The text `{d0, d1, ...}`. Each name has `width` characters with its comma and its blanks.
constexpr int width = 5;
constexpr char character_of_list(int position) {
  const int number = position / width, place = position % width;
  const int digits = number < 10 ? 1 : number < 100 ? 2 : 3;
  if (place == 0) return number == 0 ? '{' : ',';
  if (place == 1) return 'd';
  int quotient = number;
  for (int i = place - 1; i < digits; ++i) quotient /= 10;
  return place - 2 < digits ? static_cast<char>('0' + quotient % 10) : ' ';
}
template <class Positions>
struct List;
template <std::size_t... position>
struct List<std::index_sequence<position...>> {
  static constexpr char text[] = {character_of_list(position)..., '}', '\0'};
};

// The accumulators of a thread, as PTX registers with the names d0, d1, .... An asm statement for all shapes cannot
// have them as operands, because their number differs.
template <int count>
struct Accumulators {
  using Indices = std::make_index_sequence<count>;
  using Names = List<std::make_index_sequence<count * width>>;

  __device__ Accumulators() { asm volatile(".reg .f32 d<%0>;" ::"n"(count)); }
  __device__ void set(int thread) const { set_all(thread, Indices()); }
  __device__ void store(float* out) const { store_all(out, Indices()); }

 private:
  template <int i>
  __device__ static void set_one(float x) {
    asm volatile("mov.f32 d%1, %0;" ::"f"(x), "n"(i) : "memory");
  }
  template <int i>
  __device__ static float get_one() {
    float x;
    asm volatile("mov.f32 %0, d%1;" : "=f"(x) : "n"(i) : "memory");
    return x;
  }
  template <std::size_t... i>
  __device__ static void set_all(int thread, std::index_sequence<i...>) {
    (set_one<i>(static_cast<float>(static_cast<int>(i) + thread)), ...);
  }
  template <std::size_t... i>
  __device__ static void store_all(float* out, std::index_sequence<i...>) {
    ((out[i * threads] = get_one<i>()), ...);
  }
};

// A kind of product: D = sign * A B^T + D, for A [64, k] and B [n, k].
template <class Element_, int n_, bool is_mn_a_ = false, bool is_mn_b_ = false, int sign_ = 1>
struct Product {
  using Element = Element_;
  static constexpr int n = n_, sign = sign_, accumulators = n / 2;
  static constexpr bool is_mn_a = is_mn_a_, is_mn_b = is_mn_b_;
  using Names = typename Accumulators<accumulators>::Names;

  __device__ static void issue(u64 a, u64 b, int accumulates) {
    if constexpr (Element::bytes == 4)
      asm volatile(
          "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
          "wgmma.mma_async.sync.aligned.m64n%0%1 %2, %3, %4, p, %6, 1;\n}\n" ::"n"(n),
          "C"(Element::suffix), "C"(Names::text), "l"(a), "l"(b), "r"(accumulates), "n"(sign)
          : "memory");
    else
      asm volatile(
          "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
          "wgmma.mma_async.sync.aligned.m64n%0%1 %2, %3, %4, p, %6, 1, %7, %8;\n}\n" ::"n"(n),
          "C"(Element::suffix), "C"(Names::text), "l"(a), "l"(b), "r"(accumulates), "n"(sign), "n"(int(is_mn_a)),
          "n"(int(is_mn_b))
          : "memory");
  }
  __device__ static void issue(const u32 (&a)[4], u64 b, int accumulates) {
    if constexpr (Element::bytes == 4)
      asm volatile(
          "{\n.reg .pred p;\nsetp.ne.b32 p, %8, 0;\n"
          "wgmma.mma_async.sync.aligned.m64n%0%1 %2, {%3, %4, %5, %6}, %7, p, %9, 1;\n}\n" ::"n"(n),
          "C"(Element::suffix), "C"(Names::text), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulates),
          "n"(sign)
          : "memory");
    else
      asm volatile(
          "{\n.reg .pred p;\nsetp.ne.b32 p, %8, 0;\n"
          "wgmma.mma_async.sync.aligned.m64n%0%1 %2, {%3, %4, %5, %6}, %7, p, %9, 1, %10;\n}\n" ::"n"(n),
          "C"(Element::suffix), "C"(Names::text), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulates),
          "n"(sign), "n"(int(is_mn_b))
          : "memory");
  }
};

// The products that a kernel executes one after another. The descriptors are relative to the image.
struct Steps {
  u64 a[most_steps], b[most_steps];
  int count, image_bytes;
  bool accumulates;
  ProductFault fault;
};

// Writes accumulator i of thread t to out[i * threads + t]. `fragments` are the registers of A, or null if A is
// in the image.
template <class Product>
__global__ void __launch_bounds__(threads) multiply(const uint4* image, const u32* fragments, Steps steps, float* out) {
  extern __shared__ __align__(swizzle_atom) u8 memory[];
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < steps.image_bytes / 16; i += threads) reinterpret_cast<uint4*>(memory)[i] = image[i];
  if (steps.fault != ProductFault::no_proxy_fence) fence_proxy_async();
  __syncthreads();
  const u64 base = shared_address(memory) >> 4;
  const Accumulators<Product::accumulators> accumulators;
  accumulators.set(thread);
  u32 a[4];
  for (int step = 0; step < steps.count; ++step) {
    const bool accumulates = step > 0 || steps.accumulates;
    if (fragments) {
      for (int i = 0; i < 4; ++i) a[i] = fragments[(step * 4 + i) * threads + thread];
      keep_in_place(a);
      wgmma_fence();
      Product::issue(a, steps.b[step] + base, accumulates);
    } else {
      wgmma_fence();
      Product::issue(steps.a[step] + base, steps.b[step] + base, accumulates);
    }
    wgmma_commit_group();
    if (fragments && steps.fault != ProductFault::overwritten_a) wgmma_wait_group<0>();
  }
  wgmma_wait_group<0>();
  accumulators.store(out + thread);
}

// The number of bytes in which a swizzle moves pieces of 16 bytes.
constexpr int bytes_of(Swizzle swizzle) {
  return swizzle == swizzle_128 ? 128 : swizzle == swizzle_64 ? 64 : swizzle == swizzle_32 ? 32 : 16;
}

// The layout of an operand in shared memory: panels of lines, as in the figures of the manual. A line of a K-major
// operand is a row, and a line of an MN-major one is a column.
struct Layout {
  Swizzle swizzle;
  bool is_mn_major;
  int rows, columns, element_bytes;

  int lines() const { return is_mn_major ? columns : rows; }
  int panel_bytes() const { return lines() * bytes_of(swizzle); }

  // Returns the offset of an element.
  int offset(int row, int column) const {
    const int line_bytes = bytes_of(swizzle);
    const int line = is_mn_major ? column : row;
    const int position = (is_mn_major ? row : column) * element_bytes;
    int piece = position % line_bytes / 16;
    if (swizzle == swizzle_128) piece ^= line % 8;
    if (swizzle == swizzle_64) piece ^= line / 2 % 4;
    if (swizzle == swizzle_32) piece ^= line / 4 % 2;
    return position / line_bytes * panel_bytes() + line * line_bytes + piece * 16 + position % 16;
  }

  // Returns the descriptor of the columns from `column` on, for an operand at an offset of the image.
  u64 descriptor(int image_offset, int column) const {
    const int line_bytes = bytes_of(swizzle), position = column * element_bytes;
    const auto encode = [&](int offset, int leading_offset, int stride_offset) {
      return matrix_descriptor(static_cast<u32>(image_offset + offset), static_cast<u32>(leading_offset),
                               static_cast<u32>(stride_offset), swizzle);
    };
    const int stride_offset = 8 * line_bytes;
    if (is_mn_major && swizzle == no_swizzle) return encode(column * line_bytes, stride_offset, panel_bytes());
    if (is_mn_major) return encode(column * line_bytes, panel_bytes(), stride_offset);
    if (swizzle == no_swizzle) return encode(position / line_bytes * panel_bytes(), panel_bytes(), stride_offset);
    return encode(position / line_bytes * panel_bytes() + position % line_bytes, 16, stride_offset);
  }

  int bytes() const {
    const int line = bytes_of(swizzle) / element_bytes;
    const int filled_rows = is_mn_major ? (rows + line - 1) / line * line : rows;
    return (filled_rows * columns * element_bytes + swizzle_atom - 1) / swizzle_atom * swizzle_atom;
  }
};

struct Matrix {
  Matrix(int rows, int columns, int seed) : columns(columns) {
    for (int i = 0; i < rows * columns; ++i) values.push_back(small_number(i, seed));
  }
  int at(int row, int column) const { return values[size_of(row * columns + column)]; }

  int columns;
  std::vector<int> values;
};

template <class Element>
void place(const Matrix& matrix, const Layout& layout, u8* image) {
  for (int row = 0; row < layout.rows; ++row)
    for (int column = 0; column < layout.columns; ++column)
      store_element<Element>(image + layout.offset(row, column), matrix.at(row, column));
}

// Returns the registers of A for all steps: word i of thread t at (step * 4 + i) * threads + t.
template <class Element>
std::vector<u32> fragments_of(const Matrix& a, int steps) {
  std::vector<u32> fragments;
  constexpr int elements = 4 / Element::bytes;  // in a word
  for (int step = 0; step < steps; ++step)
    for (int i = 0; i < 4; ++i)
      for (int thread = 0; thread < threads; ++thread) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
        const int column = step * Element::k + thread % 4 * elements + i / 2 * (Element::k / 2);
        u8 word[4];
        for (int e = 0; e < elements; ++e) store_element<Element>(word + e * Element::bytes, a.at(row, column + e));
        u32 bits;
        std::memcpy(&bits, word, 4);
        fragments.push_back(bits);
      }
  return fragments;
}

struct Setting {
  Swizzle swizzle_a, swizzle_b;
  bool a_in_registers = false, accumulates = false;
  int columns = 64;
  ProductFault fault = ProductFault::none;
};

template <class Product>
void compare(const Matrix& a, const Matrix& b, const Setting& setting, const std::vector<float>& d) {
  const std::string what = "an element of wgmma's product for n = " + std::to_string(Product::n) + ", with swizzles " +
                           std::to_string(setting.swizzle_a) + " and " + std::to_string(setting.swizzle_b);
  for (int i = 0; i < Product::accumulators; ++i)
    for (int thread = 0; thread < threads; ++thread) {
      const AccumulatorPlace at(thread, i);
      int sum = 0;
      for (int k = 0; k < setting.columns; ++k) sum += a.at(at.row, k) * b.at(at.column, k);
      const int expected = Product::sign * sum + (setting.accumulates ? i + thread : 0);
      expect_equal(what, d[size_of(i * threads + thread)], static_cast<float>(expected));
    }
}

template <class Product>
void check_product(const Setting& setting) {
  using Element = typename Product::Element;
  const Layout layout_a{setting.swizzle_a, Product::is_mn_a, rows_of_a, setting.columns, Element::bytes};
  const Layout layout_b{setting.swizzle_b, Product::is_mn_b, Product::n, setting.columns, Element::bytes};
  const Matrix a(rows_of_a, setting.columns, 1), b(Product::n, setting.columns, 2);
  Steps steps{};
  steps.count = setting.columns / Element::k;
  steps.image_bytes = layout_a.bytes() + layout_b.bytes();
  steps.accumulates = setting.accumulates;
  steps.fault = setting.fault;
  for (int step = 0; step < steps.count; ++step) {
    steps.a[step] = layout_a.descriptor(0, step * Element::k);
    steps.b[step] = layout_b.descriptor(layout_a.bytes(), step * Element::k);
  }
  constexpr u8 nan = 0xff;
  std::vector<u8> image(size_of(steps.image_bytes), nan);
  place<Element>(a, layout_a, image.data());
  place<Element>(b, layout_b, image.data() + layout_a.bytes());

  const DeviceArray<u8> on_device(image);
  const DeviceArray<u32> fragments(fragments_of<Element>(a, steps.count));
  const DeviceArray<float> d(size_of(Product::accumulators * threads));
  cuda::check(cudaFuncSetAttribute(multiply<Product>, cudaFuncAttributeMaxDynamicSharedMemorySize, steps.image_bytes),
              "cudaFuncSetAttribute");
  multiply<Product><<<1, threads, steps.image_bytes>>>(reinterpret_cast<const uint4*>(on_device.data()),
                                                       setting.a_in_registers ? fragments.data() : nullptr, steps,
                                                       d.data());
  cuda::check(cudaGetLastError(), "launch");
  compare<Product>(a, b, setting, d.host());
}

template <int n>
void check_shape() {
  check_product<Product<Bf16, n>>({swizzle_128, swizzle_128, n % 16 != 0, n % 24 == 0});
}
template <std::size_t... i>
void check_shapes(std::index_sequence<i...>) {
  (check_shape<8 * (static_cast<int>(i) + 1)>(), ...);
}

void check_layouts(Swizzle a, Swizzle b) {
  check_product<Product<Bf16, 64, false, false>>({a, b, false, true});
  check_product<Product<Bf16, 64, false, true>>({a, b, false, false});
  check_product<Product<Bf16, 64, true, false>>({a, b, false, false});
  check_product<Product<Bf16, 64, true, true>>({a, b, false, true, 128});
}

void check_types(Swizzle swizzle) {
  check_product<Product<Bf16, 64, false, false>>({no_swizzle, swizzle, true, true});
  check_product<Product<Bf16, 64, false, true>>({no_swizzle, swizzle, true, false});
  check_product<Product<F16, 64, false, true>>({swizzle, swizzle, false, true});
  check_product<Product<F16, 64, false, false>>({swizzle, swizzle, true, false});
  check_product<Product<Tf32, 64>>({swizzle, swizzle, false, true});
  check_product<Product<Tf32, 64>>({swizzle, swizzle, true, false});
  check_product<Product<Bf16, 128, false, true>>({swizzle_128, swizzle, false, false});
  check_product<Product<Bf16, 256, false, true>>({swizzle_128, swizzle, true, false, 32});
}

}  // namespace

void check_products() {
  check_shapes(std::make_index_sequence<32>());
  for (const Swizzle swizzle : {no_swizzle, swizzle_128, swizzle_64, swizzle_32}) {
    check_layouts(no_swizzle, swizzle);
    check_layouts(swizzle, swizzle);
    check_types(swizzle);
  }
  for (const bool a_in_registers : {false, true})
    check_product<Product<Bf16, 64, false, false, -1>>({swizzle_128, swizzle_128, a_in_registers, true});
}

void check_product(ProductFault fault) {
  const bool a_in_registers = fault == ProductFault::overwritten_a;
  check_product<Product<Bf16, 64>>({swizzle_128, swizzle_128, a_in_registers, false, 64, fault});
}

}  // namespace heddle::testing::hopper
