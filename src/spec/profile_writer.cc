#include "spec/profile_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "spec/bounded_json.h"
#include "spec/csv_table.h"
#include "spec/json_place.h"
#include "spec/text_file.h"

namespace helix::spec {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kLimitColumns = {
    "machine_type",          "num_layers",          "max_num_layers_of_type",
    "vllm_blocks_per_layer", "kv_tokens_per_layer", "kv_capacity_token_layers",
    "prompt_max_requests",   "prompt_max_tokens",   "decode_max_tokens",
    "decode_max_context"};

base::Status check_name(const char* what, const std::string& name) {
    const bool good = !name.empty() && name != "." && name != ".." &&
                      std::none_of(name.begin(), name.end(), [](unsigned char c) {
                          return c <= ' ' || c == '/' || c == ',' || c == '"' || c == '\\';
                      });
    if (good) return base::Ok{};
    return base::invalid(fmt::format(
        "{} '{}': it becomes part of file names and tables; expected no space, comma or slash",
        what, name));
}

std::string curve_text(const MeasuredTables::Curve& curve) {
    std::string text = "batch_tokens,one_layer_time_ms\n0,0.0\n";
    // Between two sizes that take equally long, noise decides which was faster, so a curve is made
    // to rise.
    double ms = 0;
    for (const auto& [tokens, seconds] : curve) {
        ms = std::max(ms, seconds * 1e3);
        text += fmt::format("{},{:.6g}\n", tokens, ms);
    }
    return text;
}

std::string limit_rows(const MeasuredTables& tables) {
    std::string text;
    for (std::size_t i = 0; i < tables.limits.size(); ++i) {
        const MeasuredTables::Limit& limit = tables.limits[i];
        const auto layers = static_cast<std::int64_t>(i) + 1;
        const std::int64_t blocks = limit.kv_tokens_per_layer / tables.block_size;
        text +=
            fmt::format("{},{},{},{},{},{},{},{},{},{}\n", tables.type, layers,
                        tables.limits.size(), blocks, limit.kv_tokens_per_layer,
                        limit.kv_tokens_per_layer * layers, limit.prompt_max_requests,
                        limit.prompt_max_tokens, limit.decode_max_tokens, limit.decode_max_context);
    }
    return text;
}

// The rows of other types, unchanged.
base::Result<std::string> other_limits(const std::string& path, const std::string& type) {
    std::string text = fmt::format("{}\n", fmt::join(kLimitColumns, ","));
    if (!fs::exists(path)) return text;
    TRY(const CsvTable table, CsvTable::read(path, kLimitColumns));
    for (std::size_t row = 0; row < table.n_rows(); ++row) {
        if (table.text(row, 0) == type) continue;
        for (std::size_t column = 0; column < kLimitColumns.size(); ++column) {
            text += (column == 0 ? "" : ",") + table.text(row, column);
        }
        text += '\n';
    }
    return text;
}

base::Result<std::string> models_text(const std::string& path, const ModelSpec& model) {
    nlohmann::ordered_json models = nlohmann::ordered_json::object();
    if (fs::exists(path)) {
        TRY(const std::string text, read_text_file(path));
        TRY_VOID(parse_json(text, path));  // for its messages
        if (const auto problem = read_bounded_json(text, {}, models)) {
            return base::invalid(path + ": " + problem->message);
        }
        if (!models.is_object()) return base::invalid(path + ": expected an object of models");
    }
    const nlohmann::ordered_json entry = {
        {"num_layers", model.n_layers},
        {"layer_param_bytes", model.layer_bytes},
        {"token_bytes", model.token_bytes},
        {"activation_bytes_per_token", model.activation_bytes_per_token},
        {"layer_time_note", "profile gives time of ONE layer"}};
    if (models.contains(model.name)) {
        for (const char* key : {"num_layers", "layer_param_bytes", "activation_bytes_per_token"}) {
            const auto& known = models[model.name];
            if (known.is_object() && known.contains(key) && known[key] == entry[key]) continue;
            return base::invalid(
                fmt::format("{}: has another model of the name {} ({} is not {}); choose another "
                            "name or folder",
                            path, model.name, key, entry[key].dump()));
        }
        return models.dump(1) + "\n";
    }
    models[model.name] = entry;
    return models.dump(1) + "\n";
}

}  // namespace

base::Status write_profile(const std::string& directory, const MeasuredTables& tables) {
    TRY_VOID(check_name("model", tables.model.name));
    TRY_VOID(check_name("type", tables.type));
    if (tables.limits.empty()) return base::invalid("the machine can hold no layer");
    std::error_code ec;
    fs::create_directories(directory, ec);
    if (ec) {
        return base::Error{base::Errc::io, fmt::format("{}: {}", directory, ec.message())};
    }
    const std::string models_path = directory + "/models.json";
    const std::string limits_path = fmt::format("{}/{}_limits.csv", directory, tables.model.name);
    // Everything is read before anything is written.
    TRY(const std::string models, models_text(models_path, tables.model));
    TRY(const std::string limits, other_limits(limits_path, tables.type));
    const std::string stem = fmt::format("{}/{}_{}_", directory, tables.model.name, tables.type);
    TRY_VOID(write_text_file(stem + "prompt_time.csv", curve_text(tables.prompt_s)));
    TRY_VOID(write_text_file(stem + "decode_time.csv", curve_text(tables.decode_s)));
    TRY_VOID(write_text_file(limits_path, limits + limit_rows(tables)));
    return write_text_file(models_path, models);
}

}  // namespace helix::spec
