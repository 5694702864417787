#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace helix::text {

// Blanks in the sense of JSON.
constexpr bool is_json_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
std::string_view without_blanks(std::string_view text);  // at either end
// Appends text as a JSON string holds it, without the quotes.
void append_json_escaped(std::string& out, std::string_view text);
std::string json_quoted(std::string_view text);
// What is between the quotes of a JSON string, decoded.
std::string json_unescaped(std::string_view inside);

// Checks that text which comes byte by byte is one JSON value, an object, array, string or word,
// and says where in it each byte is. Control characters inside a string, which JSON forbids and
// models write, are mended to escapes.
class JsonReader {
  public:
    enum class At : std::uint8_t {
        value,        // a value must begin
        item_or_end,  // after [
        name_or_end,  // after {
        name_begin,   // after a comma in an object
        name,         // inside a member's name
        colon,
        string,  // inside a string that is a value
        number,
        word,  // true, false, null
        after_value,
        done,  // the outermost value is complete
        bad,   // this is no JSON
    };

    // Takes the next byte and appends it to out, mended where that is needed. After done or bad
    // nothing may come.
    void push(char byte, std::string& out);
    At at() const { return at_; }
    // How many objects and arrays are open.
    std::size_t depth() const { return open_.size(); }

  private:
    static constexpr std::size_t kMaxDepth = 128;

    void begin_value(char byte);
    void begin_name(char byte);
    void in_string(char byte);
    void in_number(char byte);
    void in_word(char byte);
    void after(char byte);
    void open(char bracket, At inside);
    void close(char bracket);
    void value_ends() { at_ = open_.empty() ? At::done : At::after_value; }

    std::vector<char> open_;
    At at_ = At::value;
    std::uint8_t escape_ = 0;  // 1: after a backslash; 2 to 5: hex digits are to come
    std::string scalar_;       // the number, or what is left of the word
};

}  // namespace helix::text
