// helix node list|drain|undrain|remove

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/escape.h"
#include "cli/command.h"
#include "cli/server_client.h"

namespace helix::cli {
namespace {

struct NodeArguments {
    ServerArguments server;
    std::string name;
    bool json = false;
    bool no_wait = false;
};

constexpr std::chrono::milliseconds kAskEvery{500};

// What the server says goes to a terminal.
std::string text_of(const nlohmann::json& node, const char* field) {
    const auto found = node.find(field);
    return found != node.end() && found->is_string() ? base::escaped(found->get<std::string>())
                                                     : std::string();
}

base::Result<nlohmann::json> nodes(ServerClient& server) {
    TRY(nlohmann::json body, server.ask("GET", "/helix/nodes"));
    if (!body.contains("data") || !body["data"].is_array()) {
        return base::invalid(server.url() + ": GET /helix/nodes is not what helix answers");
    }
    return body;
}

// Null when it is not there (any more).
base::Result<nlohmann::json> find_node(ServerClient& server, const std::string& name) {
    TRY(const nlohmann::json body, nodes(server));
    for (const nlohmann::json& node : body["data"]) {
        if (node.is_object() && node.value("name", "") == name) return node;
    }
    return nlohmann::json();
}

std::string layers_text(const nlohmann::json& node) {
    const nlohmann::json layers = node.value("layers", nlohmann::json());
    if (!layers.is_array() || layers.size() != 2) return "-";
    return fmt::format("{}-{}", layers[0].get<int>(), layers[1].get<int>());
}

base::Status list_nodes(const NodeArguments& a) {
    TRY(ServerClient server, ServerClient::connect(a.server));
    TRY(const nlohmann::json body, nodes(server));
    if (a.json) {
        std::printf("%s\n", body.dump().c_str());
        return base::Ok{};
    }
    std::printf("%-20s %-10s %-8s %-9s %8s  %s\n", "NAME", "STATE", "ROLE", "LAYERS", "REQUESTS",
                "KV USED");
    for (const nlohmann::json& node : body["data"]) {
        const auto pages = node.value("kv_pages", std::int64_t{0});
        const auto used = node.value("kv_pages_used", std::int64_t{0});
        std::string note;
        if (const double slow = node.value("slowdown", 1.0); slow > 1) {
            note = fmt::format("  slow: takes {:.1f} times its usual time", slow);
        }
        std::printf("%-20s %-10s %-8s %-9s %8lld  %lld %%%s\n", text_of(node, "name").c_str(),
                    text_of(node, "state").c_str(), text_of(node, "role").c_str(),
                    layers_text(node).c_str(),
                    static_cast<long long>(node.value("requests", std::int64_t{0})),
                    static_cast<long long>(pages > 0 ? used * 100 / pages : 0), note.c_str());
    }
    for (const nlohmann::json& away : body.value("drained_away", nlohmann::json::array())) {
        const bool remove = away.value("remove", false);
        std::printf("%-20s %-10s is not here, and %s when it comes back\n",
                    text_of(away, "name").c_str(), remove ? "removing" : "drained",
                    remove ? "leaves again" : "stays drained");
    }
    return base::Ok{};
}

// Until the worker holds nothing or, with remove, has left. Says what changes.
base::Status follow(ServerClient& server, const NodeArguments& a, bool remove,
                    nlohmann::json& last) {
    std::string said;
    while (true) {
        std::this_thread::sleep_for(kAskEvery);
        TRY(nlohmann::json node, find_node(server, a.name));
        if (node.is_null()) {  // it has left, or died: either way it holds nothing
            last["state"] = "gone";
            if (!a.json) std::printf("%s is gone\n", a.name.c_str());
            return base::Ok{};
        }
        last = node;
        const std::string state = node.value("state", "");
        if (state == "drained" && !remove) {
            if (!a.json) std::printf("%s is drained: it holds nothing\n", a.name.c_str());
            return base::Ok{};
        }
        if (state != "draining" && state != "removing" && state != "drained" &&
            state != "removed") {
            const std::string why = text_of(node, "drain_refused");
            return base::invalid(why.empty() ? fmt::format("{} is used again", a.name)
                                             : fmt::format("{} is not drained, it goes on as it "
                                                           "was: without it {}",
                                                           a.name, why));
        }
        const auto requests = node.value("requests", std::int64_t{0});
        const std::string waits = text_of(node, "drain_waits");
        std::string text = state == "removed" ? a.name + " is empty and leaves"
                           : !waits.empty()   ? a.name + " waits: " + waits
                           : requests > 0
                               ? fmt::format("{} request{} on {} move{} away or finish{}", requests,
                                             requests == 1 ? "" : "s", a.name,
                                             requests == 1 ? "s" : "", requests == 1 ? "es" : "")
                               : "no request on " + a.name + "; the others take its layers over";
        if (!a.json && text != said) {
            std::printf("%s\n", text.c_str());
            std::fflush(stdout);
        }
        said = std::move(text);
    }
}

base::Status change_node(const NodeArguments& a, const std::string& action) {
    TRY(ServerClient server, ServerClient::connect(a.server));
    TRY(nlohmann::json last,
        server.ask("POST", "/helix/nodes/" + ServerClient::encoded(a.name) + "/" + action));
    if (action != "undrain" && !a.no_wait) {
        TRY_VOID(follow(server, a, action == "remove", last));
    } else if (!a.json) {
        std::printf("%s: %s was asked for\n", a.name.c_str(), action.c_str());
    }
    if (a.json) std::printf("%s\n", last.dump().c_str());
    return base::Ok{};
}

void add_options(CLI::App* command, NodeArguments& a) {
    add_server_options(*command, a.server);
    command->add_flag("--json", a.json, "one JSON object instead of lines for people");
}

void add_change(App& app, CLI::App* node, const std::shared_ptr<NodeArguments>& a,
                const std::string& action, const std::string& help, const std::string& examples) {
    CLI::App* command = node->add_subcommand(action, help);
    command->add_option("NAME", a->name, "the worker's, as \"helix node list\" shows it")
        ->required();
    add_options(command, *a);
    if (action != "undrain") {
        command->add_flag("--no-wait", a->no_wait, "do not wait until it holds nothing");
    }
    command->footer("Examples:\n" + examples);
    command->callback([&app, a, action] { app.action = [=] { return change_node(*a, action); }; });
}

}  // namespace

void add_node(App& app) {
    CLI::App* node = app.parser.add_subcommand(
        "node", "The workers of a cluster that serves: look, empty, remove");
    node->require_subcommand(1);
    node->footer(
        "Examples:\n"
        "  helix node list\n"
        "  helix node drain den        empties it; its requests go on elsewhere\n"
        "  helix node undrain den\n"
        "  helix node remove den --server http://hall:8080 --admin-key-file admin.key\n"
        "\n'helix node COMMAND --help' says more.");
    auto a = std::make_shared<NodeArguments>();
    CLI::App* list = node->add_subcommand("list", "The workers, their layers and requests");
    add_options(list, *a);
    list->footer(
        "Examples:\n  helix node list\n  helix node list --server http://hall:8080 --json");
    list->callback([&app, a] { app.action = [=] { return list_nodes(*a); }; });
    add_change(
        app, node, a, "drain",
        "Nothing new goes there, its requests move away, its layers go to others",
        "  helix node drain den\n  helix node drain den --no-wait --server http://hall:8080 \\\n"
        "             --admin-key-file admin.key");
    add_change(app, node, a, "undrain",
               "Uses a drained worker again, also one that is not here now",
               "  helix node undrain den");
    add_change(app, node, a, "remove", "Drains a worker and ends it", "  helix node remove den");
}

}  // namespace helix::cli
