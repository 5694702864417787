// helix pull NAME · helix model list · helix model rm NAME

#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/escape.h"
#include "cli/command.h"
#include "cli/pull_line.h"
#include "hub/cache.h"
#include "hub/model_name.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

struct PullArguments {
    std::string name;
    std::string token_file;
    std::string sha256;
    CallerKeys keys;
    bool json = false;
};

std::string size_text(std::uint64_t bytes) {
    return spec::format_bytes(static_cast<std::int64_t>(bytes));
}

nlohmann::json model_json(const hub::CachedModel& model) {
    nlohmann::json out = {{"name", model.name},
                          {"path", model.path.string()},
                          {"bytes", model.bytes},
                          {"files", nlohmann::json::array()}};
    if (!model.commit.empty()) out["commit"] = model.commit;
    for (const auto& file : model.files) out["files"].push_back(file.string());
    return out;
}

void print_json(const nlohmann::json& json) {
    const std::string text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    std::fprintf(stdout, "%s\n", text.c_str());
}

void show_pulled(const hub::Pulled& pulled, bool json) {
    if (json) {
        nlohmann::json out = model_json(pulled.model);
        out["received_bytes"] = pulled.received;
        out["files"] = nlohmann::json::array();
        for (const hub::PulledFile& file : pulled.files) {
            out["files"].push_back(
                {{"path", file.path}, {"bytes", file.bytes}, {"hash", file.hash}});
        }
        print_json(out);
        return;
    }
    const std::size_t count = pulled.files.size();
    const std::string size = size_text(pulled.model.bytes);
    std::string line =
        fmt::format("{}: {} in {} file{}, ", pulled.model.name, size, count, count == 1 ? "" : "s");
    line += pulled.received == 0 ? "all there already"
                                 : fmt::format("{} received", size_text(pulled.received));
    std::fprintf(stdout, "%s\n%s\n", base::escaped(line).c_str(), pulled.model.path.c_str());
}

base::Status run_pull(const PullArguments& a) {
    const auto pulled = [&]() -> base::Result<hub::Pulled> {
        PullLine line(a.name);
        TRY(hub::PullOptions options, pull_options(line, a.token_file, a.keys));
        options.sha256 = a.sha256;
        if (hub::is_web_address(a.name) && !hub::looks_like_model_name(a.name)) {
            return hub::pull_address(a.name, options);
        }
        TRY(const hub::ModelName name, hub::parse_model_name(a.name));
        return hub::pull(name, options);
    }();
    if (!pulled.ok()) return pulled.error();
    show_pulled(*pulled, a.json);
    return base::Ok{};
}

base::Result<hub::Cache> open_cache() {
    TRY(const hub::Settings settings, hub::read_settings(&hub::process_environment));
    return hub::Cache(settings.cache);
}

base::Status list_models(bool json) {
    TRY(const hub::Cache cache, open_cache());
    const std::vector<hub::CachedModel> models = cache.list();
    if (json) {
        nlohmann::json out = nlohmann::json::array();
        for (const hub::CachedModel& model : models) out.push_back(model_json(model));
        print_json(out);
        return base::Ok{};
    }
    if (models.empty()) {
        std::fprintf(stdout, "no models in %s; 'helix pull NAME' brings one\n",
                     cache.root().c_str());
    }
    for (const hub::CachedModel& model : models) {
        const std::string line = fmt::format("{:>8}  {}", size_text(model.bytes), model.name);
        std::fprintf(stdout, "%s\n", base::escaped(line).c_str());
    }
    return base::Ok{};
}

base::Status remove_model(const std::string& name) {
    TRY(const hub::Cache cache, open_cache());
    TRY(const std::uint64_t freed, cache.remove(name));
    std::fprintf(stdout, "%s: removed, %s freed\n", base::escaped(name).c_str(),
                 size_text(freed).c_str());
    return base::Ok{};
}

}  // namespace

void add_pull(App& app) {
    CLI::App* pull =
        app.parser.add_subcommand("pull", "Brings a model from a hub, an address or another Helix");
    auto a = std::make_shared<PullArguments>();
    pull->add_option(
            "NAME", a->name,
            "OWNER/REPO, OWNER/REPO:TAG or OWNER/REPO@REVISION:TAG of a hub, TAG as in "
            "Q4_K_M or a file's path; the http(s) address of a GGUF file; or that of another "
            "Helix, as in http://den:8080 or http://den:8080/MODEL")
        ->required();
    pull->add_option("--token-file", a->token_file,
                     "a file with the hub's token, for gated models [HF_TOKEN, HF_TOKEN_PATH or "
                     "$HF_HOME/token]");
    pull->add_option("--sha256", a->sha256, "that the file at an address must have");
    add_caller_keys(*pull, a->keys);
    pull->add_flag("--json", a->json, "one JSON object instead of lines for people");
    pull->footer(
        "Without a tag: Q4_K_M, else Q8_0, else the first GGUF file, else the safetensors. What "
        "was\n"
        "broken off goes on where it was. HF_ENDPOINT names another hub, HELIX_CACHE another "
        "folder\n"
        "than ~/.cache/huggingface/hub.\n\n"
        "Examples:\n"
        "  helix pull Qwen/Qwen3-8B-GGUF:Q4_K_M\n"
        "  helix pull Qwen/Qwen3-0.6B\n"
        "  helix pull https://example.com/models/llama.gguf\n"
        "  helix pull http://den:8080                           what that Helix serves\n"
        "  helix serve --model Qwen/Qwen3-8B-GGUF:Q4_K_M        pulls what is not there");
    pull->callback([&app, a] { app.action = [a] { return run_pull(*a); }; });
}

void add_model_cache(CLI::App& model, App& app) {
    CLI::App* list = model.add_subcommand("list", "The models that were pulled, and their sizes");
    auto json = std::make_shared<bool>(false);
    list->add_flag("--json", *json, "a JSON array instead of lines for people");
    list->footer("Example:\n  helix model list");
    list->callback([&app, json] { app.action = [json] { return list_models(*json); }; });

    CLI::App* rm = model.add_subcommand("rm", "Removes a model that was pulled");
    auto name = std::make_shared<std::string>();
    rm->add_option("NAME", *name,
                   "as 'helix model list' shows it; OWNER/REPO removes all of a repository, what "
                   "arrived of files that are not whole included")
        ->required();
    rm->footer("Example:\n  helix model rm Qwen/Qwen3-8B-GGUF:Q4_K_M");
    rm->callback([&app, name] { app.action = [name] { return remove_model(*name); }; });
}

}  // namespace helix::cli
