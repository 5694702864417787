// helix pull NAME · helix model list [--received] · helix model rm NAME | --received

#include <cstdio>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/escape.h"
#include "cli/command.h"
#include "cli/pull_line.h"
#include "hub/cache.h"
#include "hub/model_name.h"
#include "node/cache_room.h"
#include "node/tensor_cache.h"
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

// What workers of this user received of models, and keep.
struct ReceivedArguments {
    bool wanted = false;
    std::string cache = "~";

    void add_to(CLI::App& command, const char* text) {
        command.add_flag("--received", wanted, text);
        command
            .add_option("--cache", cache,
                        "the folder of received weights, as 'helix worker' has it [~/.cache/helix]")
            ->needs("--received");
    }
    base::Result<node::TensorCache> open() const {
        const std::filesystem::path folder =
            cache == "~" ? node::default_cache_dir() : std::filesystem::path(cache);
        std::error_code error;
        if (std::filesystem::is_directory(folder, error)) return node::TensorCache(folder);
        return base::Error{base::Errc::not_found,
                           fmt::format("{}: there is no such folder, so no worker of this user has "
                                       "received weights there",
                                       folder.string())};
    }
};

base::Status list_received(const ReceivedArguments& a, bool json) {
    TRY(const node::TensorCache cache, a.open());
    const std::vector<node::ReceivedModel> models = node::received_models(cache);
    if (json) {
        nlohmann::json out = nlohmann::json::array();
        for (const node::ReceivedModel& model : models) {
            out.push_back({{"name", model.name},
                           {"hash", model.hash},
                           {"bytes", model.bytes},
                           {"model_bytes", model.model_bytes},
                           {"in_use", model.in_use}});
        }
        print_json(out);
        return base::Ok{};
    }
    std::uint64_t all = 0;
    for (const node::TensorCache::File& file : cache.files()) all += file.bytes;
    for (const node::ReceivedModel& model : models) {
        const std::string line =
            fmt::format("{:>8} of {:>8}  {}{}", size_text(model.bytes),
                        size_text(model.model_bytes), model.name, model.in_use ? "  (in use)" : "");
        std::fprintf(stdout, "%s\n", base::escaped(line).c_str());
    }
    std::fprintf(stdout, "%s of weights in %s\n", size_text(all).c_str(), cache.folder().c_str());
    return base::Ok{};
}

base::Status remove_received(const ReceivedArguments& a) {
    TRY(const node::TensorCache cache, a.open());
    TRY(const std::uint64_t freed, node::remove_unused(cache));
    std::fprintf(stdout, "%s: removed what no running worker uses, %s freed\n",
                 base::escaped(cache.folder().string()).c_str(), size_text(freed).c_str());
    return base::Ok{};
}

base::Status remove_model(const std::string& name) {
    if (name.empty())
        return base::invalid("which NAME? 'helix model list' shows them; or --received");
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
    auto listed = std::make_shared<ReceivedArguments>();
    list->add_flag("--json", *json, "a JSON array instead of lines for people");
    listed->add_to(*list, "instead those of which workers on this machine keep received weights");
    list->footer("Examples:\n  helix model list\n  helix model list --received");
    list->callback([&app, json, listed] {
        app.action = [=] {
            return listed->wanted ? list_received(*listed, *json) : list_models(*json);
        };
    });

    CLI::App* rm = model.add_subcommand("rm", "Removes a model that was pulled");
    auto name = std::make_shared<std::string>();
    auto removed = std::make_shared<ReceivedArguments>();
    CLI::Option* what = rm->add_option(
        "NAME", *name,
        "as 'helix model list' shows it; OWNER/REPO removes all of a repository, what arrived of "
        "files that are not whole included");
    removed->add_to(*rm, "instead all received weights of models that no running worker uses");
    rm->get_option("--received")->excludes(what);
    rm->footer(
        "Examples:\n"
        "  helix model rm Qwen/Qwen3-8B-GGUF:Q4_K_M\n"
        "  helix model rm --received");
    rm->callback([&app, name, removed] {
        app.action = [=] {
            return removed->wanted ? remove_received(*removed) : remove_model(*name);
        };
    });
}

}  // namespace helix::cli
