// Mesa's software driver leaks 128 bytes with every instance that goes. The leak checker can tell
// whose they are only while the driver is loaded, so it stays.

#include <dlfcn.h>

#include <gtest/gtest.h>

#ifdef HELIX_SANITIZED

extern "C" const char* __lsan_default_suppressions();   // NOLINT: the checker's name
extern "C" const char* __lsan_default_suppressions() {  // NOLINT
    return "leak:libvulkan_lvp.so\n";
}

namespace helix::test::vulkan_leaks {
namespace {

[[maybe_unused]] void* const kept = dlopen("libvulkan_lvp.so", RTLD_LAZY | RTLD_NODELETE);

}  // namespace
}  // namespace helix::test::vulkan_leaks

#endif
