// safetensors files: the input itself, and a file whose header is the input's first line and whose data are the bytes
// after that line.
#include <sys/mman.h>

#include <deque>
#include <heddle/io/safetensors.hpp>

#include "fuzz.hpp"

// The bytes that were written last. Files are written to memory: the program is linked with --wrap for the calls below.
static std::string written;
static int memory_file = -1;

extern "C" {
ssize_t __real_write(int file, const void* from, std::size_t count);

int __wrap_openat(int, const char*, int, ...) { return memory_file = ::memfd_create("fuzz", MFD_CLOEXEC); }
ssize_t __wrap_write(int file, const void* from, std::size_t count) {
  if (file != memory_file) return __real_write(file, from, count);
  written.append(static_cast<const char*>(from), count);
  return static_cast<ssize_t>(count);
}
int __wrap_fsync(int) { return 0; }
int __wrap_renameat2(int, const char*, int, const char*, unsigned) {
  memory_file = -1;
  return 0;
}
}

namespace {

using namespace heddle;

template <class T>
bool reads_as(const io::Safetensors& file, const io::TensorInfo& tensor) {
  const auto count = static_cast<std::size_t>(tensor.shape.size());
  const auto values = std::make_unique_for_overwrite<T[]>(count);
  if (!fuzz::accepted<FileError>([&] { file.read(tensor, values.get()); })) return false;
  if (tensor.dtype == io::dtype_of<T>() && count > 0)
    fuzz::claim(std::memcmp(values.get(), file.bytes(tensor).data(), count * sizeof(T)) == 0, "a copy is exact");
  return true;
}

void check_tensor(const io::Safetensors& file, const io::TensorInfo& tensor) {
  fuzz::claim(file.find(tensor.name) == &tensor, "a tensor is found by its name");
  if (!io::readable(tensor.dtype))
    return fuzz::claim(!reads_as<float>(file, tensor), "a dtype that heddle does not read is refused");
  reads_as<float>(file, tensor);
  reads_as<bf16>(file, tensor);
  reads_as<std::int64_t>(file, tensor);
  reads_as<std::int32_t>(file, tensor);
  const bool is_bool = reads_as<bool>(file, tensor);
  fuzz::claim(reads_as<double>(file, tensor) || (tensor.dtype == io::DType::boolean && !is_bool),
              "every value except an invalid BOOL is read as a double");
}

// Returns false if the file holds a dtype that is not written.
bool write(const io::Safetensors& file) {
  std::vector<io::TensorBytes> tensors;
  std::deque<std::vector<std::byte>> bytes;  // alive until they are written
  bool readable = true;
  for (const io::TensorInfo& tensor : file.tensors()) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, bytes.emplace_back(file.bytes(tensor))});
    readable = readable && io::readable(tensor.dtype);
  }
  written.clear();
  const bool done =
      fuzz::accepted<WriteError>([&] { io::write_safetensors("/nowhere/fuzz.safetensors", tensors, file.metadata()); });
  fuzz::claim(done == readable, "a file is written if and only if heddle reads all its dtypes");
  return done;
}

void check_length(const std::string& bytes) {
  for (const std::string& wrong : {bytes + '.', bytes.substr(0, bytes.size() - 1)})
    fuzz::claim(!fuzz::attempt<FileError>([&] { return io::parse_safetensors(wrong, "wrong"); }),
                "a file that is a byte longer or shorter is refused");
}

void check_file(std::string_view bytes) {
  const auto read = fuzz::attempt<FileError>([&] { return io::parse_safetensors(bytes, "input"); });
  if (!read) return;
  const io::Safetensors& file = *read;
  check_length(std::string(bytes));
  for (const io::TensorInfo& tensor : file.tensors()) check_tensor(file, tensor);
  if (!write(file)) return;
  const std::string first = written;
  const io::Safetensors again = io::parse_safetensors(first, "again");
  fuzz::claim(again.tensors().size() == file.tensors().size(), "as many tensors are written as were read");
  for (const io::TensorInfo& tensor : file.tensors()) {
    const io::TensorInfo& copy = again[tensor.name];
    const auto before = file.bytes(tensor), after = again.bytes(copy);
    fuzz::claim(copy.dtype == tensor.dtype && copy.shape == tensor.shape &&
                    std::equal(before.begin(), before.end(), after.begin(), after.end()),
                "tensors read back as they were written");
  }
  auto metadata = file.metadata();
  metadata.emplace("format", "pt");
  fuzz::claim(again.metadata() == metadata, "metadata are kept");
  fuzz::claim(write(again) && written == first, "the same tensors give the same bytes");
}

std::string framed(std::string_view text) {
  const std::uint64_t length = std::min(text.find('\n'), text.size());
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += text.substr(0, length);
  if (length < text.size()) file += text.substr(length + 1);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  check_file(input.text());
  check_file(framed(input.text()));
  return 0;
}
