#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

// A folder in memory for targets that open files: one for each process, emptied before each input.

namespace helix::fuzz {

inline const std::string& empty_shm_folder() {
    static const std::string path = "/dev/shm/helix-fuzz-" + std::to_string(::getpid());
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    std::filesystem::create_directories(path, ignored);
    return path;
}

inline void write_file(const std::string& path, const std::uint8_t* data, std::size_t size) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) return;
    std::fwrite(data, 1, size, file);
    std::fclose(file);
}

}  // namespace helix::fuzz
