// helix model quantize MODEL OUT · helix model imatrix MODEL · helix model compare BASE OTHER

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "engine/input_squares.h"
#include "engine/model_distance.h"
#include "model/importance.h"
#include "model/info.h"
#include "model/model_config.h"
#include "model/quantise.h"
#include "model/quantise_plan.h"
#include "model/tensor_type.h"
#include "model/weight_source.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace helix::cli {
namespace {

constexpr std::uint64_t kMostTextBytes = std::uint64_t{1} << 30U;

using Texts = std::vector<std::vector<spec::Token>>;

// ---- texts ----------------------------------------------------------------------------------

struct TextArguments {
    std::string path;
    std::int64_t tokens = 0;  // 0: all
    std::int32_t chunk = 512;
    bool parse_special = false;
    int threads = 0;
};

void add_text_options(CLI::App& command, TextArguments& a) {
    command.add_option("--text", a.path, "a text file, like those that the model will read")
        ->required();
    command.add_option("--tokens", a.tokens, "only the first so many of the text's [all]")
        ->check(CLI::PositiveNumber);
    command
        .add_option("--chunk", a.chunk,
                    "the text is cut into pieces of so many tokens, each read by itself")
        ->check(CLI::Range(2, 1 << 20))
        ->capture_default_str();
    command.add_flag("--parse-special", a.parse_special,
                     "control tokens that the text names, like <|im_end|>, are those tokens");
    command.add_option("--threads", a.threads, "of the engine [one per core]")
        ->check(CLI::NonNegativeNumber);
}

// Pieces of the text, each behind the token that the model expects before a text.
base::Result<Texts> read_texts(const model::GgufFile& file, const TextArguments& a) {
    TRY(auto vocabulary, text::read_vocabulary(file));
    TRY(const auto tokenizer, text::Tokenizer::create(std::move(vocabulary)));
    TRY(const std::string content, base::read_file(a.path, kMostTextBytes));
    std::vector<spec::Token> tokens =
        tokenizer->encode(content, {.add_special = false, .parse_special = a.parse_special});
    if (a.tokens > 0 && std::ssize(tokens) > a.tokens)
        tokens.resize(static_cast<std::size_t>(a.tokens));
    if (tokens.size() < 2) return base::invalid(a.path + ": has less than two tokens of text");
    const bool begins = tokenizer->adds_bos() && tokenizer->bos().has_value();
    const std::size_t each = static_cast<std::size_t>(a.chunk) - (begins ? 1 : 0);
    Texts texts;
    for (std::size_t first = 0; first < tokens.size(); first += each) {
        const std::size_t end = std::min(tokens.size(), first + each);
        std::vector<spec::Token>& text = texts.emplace_back();
        if (begins) text.push_back(*tokenizer->bos());
        text.insert(text.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first),
                    tokens.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return texts;
}

std::uint64_t count_tokens(const Texts& texts) {
    std::uint64_t count = 0;
    for (const auto& text : texts) count += text.size();
    return count;
}

// Paths may be no UTF-8.
std::string json_text(const nlohmann::json& json) {
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

base::Status check_free(const std::string& output, bool force) {
    std::error_code error;
    if (force || !std::filesystem::exists(output, error)) return base::Ok{};
    return base::invalid(output + ": is there already; --force writes over it");
}

// ---- imatrix --------------------------------------------------------------------------------

struct ImatrixArguments {
    std::string model;
    TextArguments text;
    std::string output;
    bool force = false;
    bool json = false;
};

// Matrices that no row came to, like experts that the text hardly asked.
std::int64_t count_unseen(const model::ImportanceMatrix& importance) {
    std::int64_t unseen = 0;
    for (const auto& [name, squares] : importance.tensors)
        unseen += std::count(squares.counts.begin(), squares.counts.end(), 0.0F);
    return unseen;
}

base::Status run_imatrix(const ImatrixArguments& a) {
    TRY_VOID(check_free(a.output, a.force));
    TRY(const auto weights, model::open_weights(a.model));
    TRY(const Texts texts, read_texts(weights->file(), a.text));
    model::ImportanceMatrix importance;
    {
        ProgressLine progress("reading " + a.text.path);
        engine::InputSquaresOptions options;
        options.threads = a.text.threads;
        options.on_progress = [&](std::uint64_t done, std::uint64_t total) {
            progress.update(done, total);
        };
        TRY(importance, engine::measure_input_squares(weights, texts, options));
    }
    importance.datasets = {std::filesystem::path(a.text.path).filename().string()};
    TRY_VOID(model::write_importance(a.output, importance));
    const std::int64_t unseen = count_unseen(importance);
    if (a.json) {
        const nlohmann::json out{{"output", a.output},
                                 {"tensors", importance.tensors.size()},
                                 {"tokens", count_tokens(texts)},
                                 {"chunks", texts.size()},
                                 {"unseen_matrices", unseen}};
        std::printf("%s\n", json_text(out).c_str());
        return base::Ok{};
    }
    std::printf("%s\n", fmt::format("{}: {} tensors, {} tokens in {} chunks", a.output,
                                    importance.tensors.size(), count_tokens(texts), texts.size())
                            .c_str());
    if (unseen > 0)
        std::printf("to %lld experts' matrices no token came\n", static_cast<long long>(unseen));
    return base::Ok{};
}

void add_imatrix(CLI::App& model, App& app) {
    CLI::App* imatrix = model.add_subcommand(
        "imatrix", "Finds out with a text which columns of a model's matrices matter");
    auto a = std::make_shared<ImatrixArguments>();
    imatrix
        ->add_option("MODEL", a->model, "a GGUF file, a folder of safetensors, or OWNER/REPO:TAG")
        ->required();
    add_text_options(*imatrix, a->text);
    imatrix->add_option("--output", a->output, "the importance matrix, a GGUF file")->required();
    imatrix->add_flag("--force", a->force, "writes over a file that is there");
    imatrix->add_flag("--json", a->json, "one JSON object instead of lines for people");
    imatrix->footer(
        "Example:\n"
        "  helix model imatrix llama-f16.gguf --text words.txt --tokens 100000 --output "
        "llama.imatrix");
    imatrix->callback([&app, a] {
        app.models = {&a->model};
        app.action = [a] { return run_imatrix(*a); };
    });
}

// ---- quantize -------------------------------------------------------------------------------

struct QuantizeArguments {
    std::string model;
    std::vector<std::string> rules;  // PATTERN=TYPE
    std::string importance;
    model::QuantiseOptions options;
    model::QuantiseRun run;
    bool dry_run = false;
    bool json = false;
};

base::Status parse_rules(QuantizeArguments& a) {
    for (const std::string& rule : a.rules) {
        const std::size_t equals = rule.rfind('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == rule.size())
            return base::invalid("--tensor " + rule + ": expected PATTERN=TYPE");
        a.options.rules.push_back({rule.substr(0, equals), rule.substr(equals + 1)});
    }
    return base::Ok{};
}

// A line for each kind of matrix that does not get what was asked for.
std::vector<std::string> replacements(const model::QuantisePlan& plan) {
    std::map<std::string, std::pair<std::int64_t, std::string>> counted;  // and the first's name
    for (const model::PlannedTensor& tensor : plan.tensors) {
        if (!tensor.asked) continue;
        const std::string what = fmt::format(
            "rows of {} elements, no multiple of {}: {} stands in for {}", tensor.info.row_length(),
            model::tensor_type_info(*tensor.asked)->block_size,
            model::tensor_type_info(tensor.to)->name, model::tensor_type_info(*tensor.asked)->name);
        auto& [count, first] = counted[what];
        if (++count == 1) first = tensor.info.name;
    }
    std::vector<std::string> lines;
    for (const auto& [what, which] : counted) {
        lines.push_back(
            fmt::format("{}{}: {}", which.second,
                        which.first > 1 ? fmt::format(" and {} more", which.first - 1) : "", what));
    }
    return lines;
}

struct TypeTotal {
    std::int64_t tensors = 0;
    std::int64_t elements = 0;
    std::uint64_t bytes = 0;
};

std::map<std::string, TypeTotal> totals(const model::QuantisePlan& plan) {
    std::map<std::string, TypeTotal> all;
    for (const model::PlannedTensor& tensor : plan.tensors) {
        TypeTotal& total = all[model::tensor_type_info(tensor.to)->name];
        ++total.tensors;
        total.elements += tensor.info.row_length() * tensor.info.rows();
        total.bytes += tensor.bytes;
    }
    return all;
}

double bits_per_weight(const model::QuantisePlan& plan) {
    double elements = 0;
    for (const model::PlannedTensor& tensor : plan.tensors)
        elements += static_cast<double>(tensor.info.row_length() * tensor.info.rows());
    return elements > 0 ? 8.0 * static_cast<double>(plan.bytes) / elements : 0;
}

// report: null, nothing was written.
std::string quantised_json(const QuantizeArguments& a, const model::QuantisePlan& plan,
                           const model::QuantiseReport* report) {
    std::map<std::string, const model::QuantisedTensor*> done;
    if (report != nullptr) {
        for (const model::QuantisedTensor& tensor : report->tensors) done[tensor.name] = &tensor;
    }
    nlohmann::json tensors = nlohmann::json::array();
    for (const model::PlannedTensor& tensor : plan.tensors) {
        nlohmann::json one{{"name", tensor.info.name},
                           {"from", model::tensor_type_info(tensor.info.type)->name},
                           {"type", model::tensor_type_info(tensor.to)->name},
                           {"bytes", tensor.bytes}};
        if (tensor.asked) one["stands_in_for"] = model::tensor_type_info(*tensor.asked)->name;
        if (const auto found = done.find(tensor.info.name); found != done.end()) {
            one["error"] = found->second->error;
            one["weighed"] = found->second->weighed;
        }
        tensors.push_back(std::move(one));
    }
    nlohmann::json out{{"type", plan.type},
                       {"bytes_before", plan.bytes_before},
                       {"bytes", plan.bytes},
                       {"bits_per_weight", bits_per_weight(plan)},
                       {"tensors", std::move(tensors)}};
    if (report != nullptr) {
        out["output"] = a.run.output;
        out["file_bytes"] = report->file_bytes;
    }
    return json_text(out) + "\n";
}

std::string quantised_text(const QuantizeArguments& a, const model::QuantisePlan& plan,
                           const model::QuantiseReport* report) {
    std::string text;
    for (const auto& [type, total] : totals(plan)) {
        text += fmt::format("  {:<9}{:>5} tensors  {:>9} weights  {:>10}\n", type, total.tensors,
                            model::human_count(total.elements),
                            model::human_bytes(static_cast<std::int64_t>(total.bytes)));
    }
    text += fmt::format("{}: {} of tensors instead of {}, {:.2f} bits a weight\n",
                        report == nullptr ? "would be written" : a.run.output,
                        model::human_bytes(static_cast<std::int64_t>(plan.bytes)),
                        model::human_bytes(static_cast<std::int64_t>(plan.bytes_before)),
                        bits_per_weight(plan));
    if (report == nullptr || report->tensors.empty()) return text;
    const auto worst = std::max_element(
        report->tensors.begin(), report->tensors.end(),
        [](const auto& one, const auto& other) { return one.error < other.error; });
    text += fmt::format("largest error: {:.2f} % of the weights in {} ({})\n", 100 * worst->error,
                        worst->name, model::tensor_type_info(worst->type)->name);
    return text;
}

base::Status run_quantize(QuantizeArguments a) {
    TRY_VOID(parse_rules(a));
    TRY(const auto weights, model::open_weights(a.model));
    TRY(const model::QuantisePlan plan, model::plan_quantise(weights->file(), a.options));
    for (const std::string& line : replacements(plan)) std::fprintf(stderr, "%s\n", line.c_str());
    model::ImportanceMatrix importance;
    if (!a.importance.empty()) {
        TRY(importance, model::read_importance(a.importance));
        a.run.importance = &importance;
        a.run.importance_path = a.importance;
    }
    const auto show = [&](const model::QuantiseReport* report) {
        const std::string shown =
            a.json ? quantised_json(a, plan, report) : quantised_text(a, plan, report);
        std::fputs(shown.c_str(), stdout);
        return base::Ok{};
    };
    if (a.dry_run) return show(nullptr);
    model::QuantiseReport report;
    {
        ProgressLine progress("writing " + a.run.output);
        TRY(report, model::quantise_model(*weights, plan, a.run,
                                          [&](std::uint64_t done, std::uint64_t total) {
                                              progress.update(done, total);
                                          }));
    }
    if (!report.unweighed.empty()) {
        std::fprintf(stderr, "%s\n",
                     fmt::format("{} says nothing of {} of the matrices, whose errors were weighed "
                                 "evenly: {}{}",
                                 a.importance, report.unweighed.size(), report.unweighed.front(),
                                 report.unweighed.size() > 1 ? ", ..." : "")
                         .c_str());
    }
    return show(&report);
}

void add_quantize(CLI::App& model, App& app) {
    CLI::App* quantize =
        model.add_subcommand("quantize", "Writes a model with its matrices in fewer bits");
    auto a = std::make_shared<QuantizeArguments>();
    quantize
        ->add_option("MODEL", a->model, "a GGUF file, a folder of safetensors, or OWNER/REPO:TAG")
        ->required();
    quantize->add_option("OUT", a->run.output, "the GGUF file to write")->required();
    quantize->add_option("--type", a->options.type, "of the matrices: " + model::quantise_types())
        ->required();
    quantize->add_option(
        "--imatrix", a->importance,
        "an importance matrix of the model, of 'helix model imatrix' or llama.cpp");
    quantize->add_option("--tensor", a->rules,
                         "PATTERN=TYPE: what matrices get whose names fit, * for any characters; "
                         "the last that fits counts");
    quantize->add_option("--output-type", a->options.output_type, "of the head [as --type says]");
    quantize->add_option("--embedding-type", a->options.embedding_type,
                         "of the embeddings [as --type says]");
    quantize->add_flag("--allow-requantize", a->options.allow_requantise,
                       "also matrices that are quantised already");
    quantize->add_option("--threads", a->run.threads, "[one per core]");
    quantize->add_flag("--dry-run", a->dry_run, "says what would be written, and writes nothing");
    quantize->add_flag("--force", a->run.replace, "writes over a file that is there");
    quantize->add_flag("--json", a->json, "one JSON object instead of lines for people");
    quantize->footer(
        "Examples:\n"
        "  helix model quantize llama-f16.gguf llama-q4.gguf --type q4_k_m --imatrix "
        "llama.imatrix\n"
        "  helix model quantize llama-f16.gguf small.gguf --type q3_k --output-type q6_k "
        "--tensor 'blk.0.*=q5_k'");
    quantize->callback([&app, a] {
        app.models = {&a->model};
        app.action = [a] { return run_quantize(*a); };
    });
}

// ---- compare --------------------------------------------------------------------------------

struct CompareArguments {
    std::string base;
    std::string other;
    TextArguments text;
    bool json = false;
};

base::Status run_compare(const CompareArguments& a) {
    TRY(const auto base, model::open_weights(a.base));
    TRY(const auto other, model::open_weights(a.other));
    TRY(const Texts texts, read_texts(base->file(), a.text));
    engine::ModelDistance found;
    {
        ProgressLine progress("reading " + a.text.path);
        engine::DistanceOptions options;
        options.threads = a.text.threads;
        options.on_progress = [&](std::uint64_t done, std::uint64_t total) {
            progress.update(done, total);
        };
        TRY(found, engine::measure_distance(base, other, texts, options));
    }
    if (a.json) {
        const nlohmann::json out{{"tokens", found.tokens},
                                 {"base_perplexity", found.base_perplexity},
                                 {"perplexity", found.perplexity},
                                 {"mean_kl", found.mean_kl},
                                 {"mean_kl_error", found.mean_kl_error},
                                 {"p99_kl", found.p99_kl},
                                 {"max_kl", found.max_kl},
                                 {"same_top", found.same_top}};
        std::printf("%s\n", json_text(out).c_str());
        return base::Ok{};
    }
    const std::string text = fmt::format(
        "perplexity       {:.4f}, of the first {:.4f} ({} tokens)\n"
        "KL divergence    {:.6f} +- {:.6f} in the mean, {:.4f} at the 99th percentile, {:.4f} at "
        "most\n"
        "same first token {:.2f} %\n",
        found.perplexity, found.base_perplexity, found.tokens, found.mean_kl, found.mean_kl_error,
        found.p99_kl, found.max_kl, 100 * found.same_top);
    std::fputs(text.c_str(), stdout);
    return base::Ok{};
}

void add_compare(CLI::App& model, App& app) {
    CLI::App* compare = model.add_subcommand(
        "compare", "How far a model's predictions are from another's, over a text");
    auto a = std::make_shared<CompareArguments>();
    compare->add_option("BASE", a->base, "the model that is right, as 'model info' takes it")
        ->required();
    compare->add_option("OTHER", a->other, "a model of the same vocabulary")->required();
    add_text_options(*compare, a->text);
    compare->add_flag("--json", a->json, "one JSON object instead of lines for people");
    compare->footer(
        "Example:\n  helix model compare llama-f16.gguf llama-q4.gguf --text held-out.txt");
    compare->callback([&app, a] {
        app.models = {&a->base, &a->other};
        app.action = [a] { return run_compare(*a); };
    });
}

}  // namespace

void add_model_quantisation(CLI::App& model, App& app) {
    add_quantize(model, app);
    add_imatrix(model, app);
    add_compare(model, app);
}

}  // namespace helix::cli
