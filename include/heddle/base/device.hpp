// Device: the CPU or the GPU.
#pragma once
#include <ostream>

namespace heddle {

/// The device that holds a tensor. A build without HEDDLE_CUDA has the CPU only.
enum class Device { cpu, cuda };

/// Returns "cpu" or "cuda".
inline const char* to_string(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }
/// Prints "cpu" or "cuda".
inline std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

}  // namespace heddle
