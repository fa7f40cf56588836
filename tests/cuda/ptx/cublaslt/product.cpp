#include "product.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "../runtime/cublaslt_support.hpp"

namespace heddle::ptx {

namespace {

// --- elements ---

float load(const char* address, cudaDataType type) {
  if (type == CUDA_R_32F) {
    float value;
    std::memcpy(&value, address, sizeof(value));
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, address, sizeof(bits));
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Rounds to nearest, ties to even. NaN becomes 0x7fff, as on a GPU.
std::uint16_t bf16_bits(float value) {
  if (std::isnan(value)) return 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double rounded(cudaDataType type, double exact) {
  const float value = static_cast<float>(exact);
  return type == CUDA_R_32F ? value : std::bit_cast<float>(std::uint32_t{bf16_bits(value)} << 16);
}

void store(char* address, cudaDataType type, double exact) {
  const float value = static_cast<float>(exact);
  if (type == CUDA_R_32F) {
    std::memcpy(address, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits = bf16_bits(value);
  std::memcpy(address, &bits, sizeof(bits));
}

// Rounds to the 11 significant bits of TF32, ties away from zero.
float rounded_to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000) & 0xffffe000u);
}

// --- memory ---

char* bytes_at(const void* address, std::size_t bytes, const char* what) {
  void* const found = heddle_ptx_host_pointer(address, bytes);
  if (!found) throw std::out_of_range(std::string(what) + " is not inside one allocation");
  return static_cast<char*>(found);
}

// One matrix of a batch, where the host finds it.
class Matrix {
 public:
  Matrix(const void* batch, const Layout& layout, int index, const char* what)
      : layout_(layout), element_bytes_(bytes_of(layout.type)) {
    const auto offset = static_cast<std::int64_t>(element_bytes_) * layout.batch_stride * index;
    const std::size_t elements = leading_dimension() * (layout.columns - 1) + layout.rows;
    data_ = bytes_at(static_cast<const char*>(batch) + offset, element_bytes_ * elements, what);
  }

  std::size_t rows() const { return layout_.rows; }
  std::size_t columns() const { return layout_.columns; }
  float get(std::size_t row, std::size_t column) const { return load(at(row, column), layout_.type); }
  void set(std::size_t row, std::size_t column, double value) const { store(at(row, column), layout_.type, value); }

 private:
  std::size_t leading_dimension() const { return static_cast<std::size_t>(layout_.leading_dimension); }
  char* at(std::size_t row, std::size_t column) const {
    return data_ + element_bytes_ * (column * leading_dimension() + row);
  }

  const Layout& layout_;
  std::size_t element_bytes_;
  char* data_;
};

// The bias, or its gradient.
class Bias {
 public:
  Bias(const Problem& problem, std::size_t count) {
    const Operation& operation = problem.operation;
    type_ = operation.bias_type < 0 ? problem.d.type : static_cast<cudaDataType>(operation.bias_type);
    data_ = bytes_at(operation.bias, count * bytes_of(type_), "the bias");
  }
  float get(std::size_t i) const { return load(data_ + i * bytes_of(type_), type_); }
  void set(std::size_t i, double value) const { store(data_ + i * bytes_of(type_), type_, value); }

 private:
  cudaDataType type_;
  char* data_;
};

// An operand op(A) [M, K] or op(B) [K, N], by rows.
struct Operand {
  std::size_t rows, columns;
  std::vector<float> values;

  Operand(const Matrix& matrix, bool is_transposed, bool is_tf32)
      : rows(is_transposed ? matrix.columns() : matrix.rows()),
        columns(is_transposed ? matrix.rows() : matrix.columns()),
        values(rows * columns) {
    for (std::size_t j = 0; j < matrix.columns(); ++j)
      for (std::size_t i = 0; i < matrix.rows(); ++i) {
        const float value = matrix.get(i, j);
        values[is_transposed ? j * columns + i : i * columns + j] = is_tf32 ? rounded_to_tf32(value) : value;
      }
  }
  const float* row(std::size_t i) const { return values.data() + i * columns; }
};

// --- the product ---

std::vector<double> row_of_product(const Operand& a, const Operand& b, std::size_t i) {
  std::vector<double> sums(b.columns);
  for (std::size_t k = 0; k < a.columns; ++k) {
    const double factor = static_cast<double>(a.row(i)[k]);
    const float* const of_b = b.row(k);
    for (std::size_t j = 0; j < b.columns; ++j) sums[j] += factor * static_cast<double>(of_b[j]);
  }
  return sums;
}

void compute_product(const Product& product, const Operand& a, const Operand& b, const Matrix& c, const Matrix& d) {
  const Problem& problem = product.problem;
  std::optional<Bias> bias;
  if (problem.operation.epilogue == CUBLASLT_EPILOGUE_BIAS) bias.emplace(problem, a.rows);
  const double alpha = static_cast<double>(product.alpha), beta = static_cast<double>(product.beta);
  for (std::size_t i = 0; i < a.rows; ++i) {
    const std::vector<double> sums = row_of_product(a, b, i);
    const double of_row = bias ? static_cast<double>(bias->get(i)) : 0;
    for (std::size_t j = 0; j < b.columns; ++j) {
      const double sum = product.is_rounded_twice ? rounded(problem.d.type, alpha * sums[j]) : alpha * sums[j];
      const double added = product.beta != 0 ? beta * static_cast<double>(c.get(i, j)) : 0;  // C may hold NaN
      d.set(i, j, sum + added + of_row);
    }
  }
}

// Writes the gradient of a bias: the sums of the rows of op(A), or of the columns of op(B).
void compute_bias_gradient(const Problem& problem, const Operand& a, const Operand& b) {
  const cublasLtEpilogue_t epilogue = problem.operation.epilogue;
  if (epilogue == CUBLASLT_EPILOGUE_BGRADA) {
    const Bias gradient(problem, a.rows);
    for (std::size_t i = 0; i < a.rows; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < a.columns; ++k) sum += static_cast<double>(a.row(i)[k]);
      gradient.set(i, sum);
    }
  } else if (epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    const Bias gradient(problem, b.columns);
    for (std::size_t j = 0; j < b.columns; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < b.rows; ++k) sum += static_cast<double>(b.row(k)[j]);
      gradient.set(j, sum);
    }
  }
}

}  // namespace

void compute(const Product& product) {
  const auto& [operation, a, b, c, d] = product.problem;
  const bool is_tf32 = operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  try {
    for (int batch = 0; batch < d.batch_count; ++batch) {
      const Operand op_a(Matrix(product.a, a, batch, "A"), operation.a != CUBLAS_OP_N, is_tf32);
      const Operand op_b(Matrix(product.b, b, batch, "B"), operation.b != CUBLAS_OP_N, is_tf32);
      compute_product(product, op_a, op_b, Matrix(product.c, c, batch, "C"), Matrix(product.d, d, batch, "D"));
      compute_bias_gradient(product.problem, op_a, op_b);
    }
  } catch (const std::out_of_range& error) {
    heddle_ptx_raise_fault(cudaErrorIllegalAddress, (std::string("cublasLtMatmul: ") + error.what()).c_str());
  }
}

}  // namespace heddle::ptx
