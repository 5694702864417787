#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/gguf.h"
#include "model/gguf_format.h"

namespace helix::model {

// Reads the header of a GGUF file into a GgufFile. Internal to GgufFile.
class GgufParser {
  public:
    // The file must have label_, header_only_, and bytes_ or file_ set. What is behind the header
    // is not read.
    explicit GgufParser(GgufFile& file);
    base::Status parse();

    // The steps around parsing that need GgufFile's members.
    static std::shared_ptr<GgufFile> make(std::string label);
    static base::Status open(GgufFile& file, const std::string& path);
    static base::Status adopt(GgufFile& file, std::vector<std::byte> bytes, bool header_only);

  private:
    template <typename T>
    base::Result<T> number(std::string_view what);
    // Reads a name of 1 to max_length bytes of printable ASCII.
    base::Result<std::string> name(std::string_view what, std::uint64_t max_length);
    base::Result<std::string> string(std::string_view what);
    // Makes sure that the next bytes are there, and read.
    base::Status need(std::uint64_t bytes, std::string_view what);
    // Charges this many more bytes of memory for what the header says; an error when it is too
    // much.
    base::Status charge(std::uint64_t bytes);
    // Refuses a count of records that cannot fit in what is left of the file.
    base::Status check_count(std::uint64_t count, std::uint64_t record_bytes,
                             std::string_view what) const;
    base::Error fail(const std::string& text) const;

    base::Status read_preamble();
    base::Status read_metadata(std::uint64_t index);
    base::Result<MetaValue> read_value();
    base::Result<MetaValue> read_array();
    base::Status read_alignment();
    base::Status read_tensor(std::uint64_t index);
    base::Result<std::uint64_t> tensor_bytes(const TensorInfo& tensor) const;
    base::Status place_tensors();
    base::Status check_overlaps() const;

    GgufFile& file_;
    std::vector<std::byte>& bytes_;  // of the file, from its beginning: as far as they are read
    std::uint64_t size_ = 0;         // of the file
    std::uint64_t position_ = 0;
    std::uint64_t kept_ = 0;          // bytes of memory, as charged
    std::string context_ = "header";  // what is being read, for errors
    std::uint64_t n_tensors_ = 0;
    std::uint64_t n_metadata_ = 0;
};

}  // namespace helix::model
