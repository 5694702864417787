#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// Which files of a repository a name means.

namespace helix::hub {

struct FileChoice {
    // What is needed, in order. Of a GGUF model in parts the first part is the first one.
    std::vector<std::string> paths;
    bool folder = false;  // safetensors beside their config.json: the folder is what is opened
};

// The files that a tag means among the paths of a repository:
//   * a path that is there: that file;
//   * else GGUF files whose name ends with the tag after '-' or '.' (any case), or is the tag;
//     F16 is not BF16. Of several the one with the shortest name; two of that length are an error;
//   * no tag: Q4_K_M, else Q8_0, else the first GGUF file, else the safetensors in the root.
// Projectors, importance matrices and draft heads are no models. A file in parts
// (-00001-of-00003.gguf) needs all of them. Error not_found lists the tags that there are.
base::Result<FileChoice> choose_files(std::span<const std::string> paths, const std::string& tag,
                                      const std::string& repository);

// "-00002-of-00003" before the extension: the part's number, how many there are, and the name
// without it. count 1 for a file that is whole.
struct FilePart {
    std::string stem;  // the path without extension and part
    int number = 1;
    int count = 1;
};
FilePart file_part(std::string_view path);
// The path of another part of the same file.
std::string part_path(const FilePart& part, int number, std::string_view extension);

// The GGUF models among paths: of each the first part.
std::vector<std::string> gguf_models(std::span<const std::string> paths);
// The shortest tag that means this GGUF file among paths; its path when no tag does.
std::string shortest_tag(std::span<const std::string> paths, const std::string& path);

}  // namespace helix::hub
