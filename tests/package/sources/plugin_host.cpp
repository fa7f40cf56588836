// plugin_host LIBRARY CYCLES: loads the library, calls its function and unloads it, CYCLES times.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main(int, char** arguments) {
  for (int cycle = std::atoi(arguments[2]); cycle > 0; --cycle) {
    void* const library = ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::fprintf(stderr, "%s\n", ::dlerror()), 2;
    reinterpret_cast<float (*)()>(::dlsym(library, "compute"))();
    ::dlclose(library);
    if (::dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD)) return std::fprintf(stderr, "the library is still loaded\n"), 2;
    ::usleep(1000);  // time for a thread that was left behind
  }
}
