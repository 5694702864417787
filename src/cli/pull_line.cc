#include "cli/pull_line.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "base/escape.h"
#include "base/hash.h"
#include "hub/model_name.h"
#include "model/manifest.h"

namespace helix::cli {
namespace {

constexpr base::Duration kLongPause = base::from_seconds(2);

}  // namespace

void PullLine::update(const hub::PullProgress& progress) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    rate_.at({std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()}, progress.done);
    line_.update(progress.done, progress.total, [&] {
        return hub::describe_transfer(progress.done, progress.total, rate_.bytes_per_s());
    });
}

void PullLine::note(base::Duration pause, const std::string& why) {
    const bool other = why.starts_with("another process");
    if (why == noted_ || (!other && pause < kLongPause)) return;
    noted_ = why;
    line_.interrupt();
    if (other) {
        std::fprintf(stderr, "helix: %s; this one waits for it\n", base::escaped(why).c_str());
    } else {
        std::fprintf(stderr, "helix: %s; tries again in %.0f s\n", base::escaped(why).c_str(),
                     std::ceil(pause.seconds()));
    }
}

base::Result<hub::PullOptions> pull_options(PullLine& line, const std::string& token_file,
                                            const CallerKeys& keys) {
    hub::PullOptions options;
    TRY(options.settings, hub::read_settings(&hub::process_environment, token_file));
    options.progress = [&line](const hub::PullProgress& progress) { line.update(progress); };
    TRY(options.key, key_to_send(keys, AccessEnvironment::read()));
    options.check_model = [](const std::filesystem::path& file, const std::string& hash) {
        const auto found = model::hash_model_file(file.string());
        if (!found.ok()) return base::Status(found.error());
        if (base::to_hex(*found) == hash) return base::Status(base::Ok{});
        return base::Status(base::Error{
            base::Errc::io,
            fmt::format("the content of the file has the hash {}, and {} by the server's list; "
                        "nothing of it is kept",
                        base::to_hex(*found), hash)});
    };
    options.note = [&line](base::Duration pause, const std::string& why) { line.note(pause, why); };
    return options;
}

base::Status resolve_model(std::string& model) {
    std::error_code error;
    if (std::filesystem::exists(model, error)) return base::Ok{};
    if (!hub::is_web_address(model) && !hub::looks_like_model_name(model)) return base::Ok{};
    PullLine line(model);
    TRY(const hub::PullOptions options, pull_options(line));
    const auto found = hub::find_or_pull(model, options);
    if (!found.ok()) {
        return base::Error{found.error().code, "--model " + model +
                                                   ": there is no such file, and "
                                                   "as the name of a model to pull: " +
                                                   found.error().message};
    }
    model = found->path.string();
    return base::Ok{};
}

}  // namespace helix::cli
