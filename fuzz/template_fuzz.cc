// rooms: text
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/template/chat_template.h"

// Any bytes as a chat template: parse() and render() end soon with text or an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    const auto parsed = helix::text::ChatTemplate::parse(source);
    if (!parsed.ok()) return 0;
    static const nlohmann::ordered_json context = nlohmann::ordered_json::parse(R"({
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hé"},
                     {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"a": [1, 2.5]}}]}],
        "tools": [{"type": "function", "function": {"name": "f"}}], "bos_token": "<s>", "eos_token": "</s>",
        "add_generation_prompt": true, "n": 3, "l": [3, 1, 2], "d": {"b": 1, "a": "x"}})");
    helix::text::jinja::RenderLimits limits;
    limits.steps = 100'000;
    limits.text_bytes = 1 << 20;
    limits.output_bytes = 1 << 20;
    static_cast<void>((*parsed)->render(context, {}, limits));
    return 0;
}
