#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

// The one table of the fields that bodies of requests may have. Readers of bodies name their fields
// by it and take what a number may be from it (field_reader.h); the OpenAPI document and the
// tables of docs/api.md are written from it (openapi.h).

namespace helix::api {

// What kinds of JSON a field takes, and what else is known of it.
enum class FieldShape : std::uint8_t {
    number,
    integer,
    boolean,
    text,
    texts,  // a string or an array of strings
    object,
    array,
    prompt,  // a string, an array of strings, or one (of arrays) of token ids
    any
};

// Bodies, as bits.
namespace body {
constexpr std::uint16_t kChat = 1;
constexpr std::uint16_t kCompletions = 2;
constexpr std::uint16_t kMessages = 4;  // Anthropic's, also where only their tokens are counted
constexpr std::uint16_t kResponses = 8;
constexpr std::uint16_t kEmbeddings = 16;
constexpr std::uint16_t kOllamaChat = 32;
constexpr std::uint16_t kOllamaGenerate = 64;
constexpr std::uint16_t kOllamaEmbed = 128;
constexpr std::uint16_t kOllamaSingle = 256;  // /api/embeddings
constexpr std::uint16_t kOllamaShow = 512;
constexpr std::uint16_t kTokenize = 1024;
constexpr std::uint16_t kDetokenize = 2048;
constexpr std::uint16_t kBatch = 4096;
constexpr std::uint16_t kRerank = 8192;
constexpr std::uint16_t kScore = 16384;
constexpr std::uint16_t kWhatIf = 32768;

constexpr std::uint16_t kOpenAi = kChat | kCompletions;
constexpr std::uint16_t kOllama = kOllamaChat | kOllamaGenerate;
constexpr std::uint16_t kAnswers = kOpenAi | kMessages | kResponses;
}  // namespace body

struct BodyField {
    std::string_view name;  // "stream_options.include_usage" in an object of the body
    FieldShape shape = FieldShape::any;
    std::uint16_t in = 0;  // bodies
    std::string_view about;
    // What a number may be; the upper end may be lower by a limit of the server, which about names.
    double low = 0;
    double high = 0;  // low == high: any number
    bool required = false;
};

namespace field {

constexpr double kMost32 = std::numeric_limits<std::int32_t>::max();

// ---- what is asked for
inline constexpr BodyField kModel{
    "model", FieldShape::text,
    body::kAnswers | body::kEmbeddings | body::kOllama | body::kOllamaEmbed | body::kOllamaSingle |
        body::kOllamaShow | body::kTokenize | body::kDetokenize | body::kRerank | body::kScore,
    "a name of the model, or one of its aliases; without one, the first that is served"};
inline constexpr BodyField kMessages{"messages",
                                     FieldShape::array,
                                     body::kChat | body::kMessages | body::kOllamaChat,
                                     "the conversation so far",
                                     0,
                                     0,
                                     true};
inline constexpr BodyField kPrompt{
    "prompt", FieldShape::prompt, body::kCompletions, "what is to be continued", 0, 0, true};

// ---- how tokens are drawn
inline constexpr BodyField kTemperature{
    "temperature", FieldShape::number, body::kAnswers, "0: the likeliest token always", 0, 100};
inline constexpr BodyField kTopP{"top_p",
                                 FieldShape::number,
                                 body::kAnswers,
                                 "draws among the likeliest tokens that have so much together",
                                 0,
                                 1};
inline constexpr BodyField kTopK{"top_k",
                                 FieldShape::integer,
                                 body::kAnswers,
                                 "draws among so many of the likeliest tokens; 0 or -1: all",
                                 -1,
                                 kMost32};
inline constexpr BodyField kMinP{
    "min_p",
    FieldShape::number,
    body::kAnswers,
    "draws only tokens that are at least so likely, compared with the likeliest",
    0,
    1};
inline constexpr BodyField kRepetitionPenalty{"repetition_penalty",
                                              FieldShape::number,
                                              body::kOpenAi,
                                              "divides what tokens of prompt and answer score",
                                              0.01,
                                              100};
inline constexpr BodyField kFrequencyPenalty{"frequency_penalty",
                                             FieldShape::number,
                                             body::kOpenAi,
                                             "taken off for each time that a token was written",
                                             -2,
                                             2};
inline constexpr BodyField kPresencePenalty{"presence_penalty",
                                            FieldShape::number,
                                            body::kOpenAi,
                                            "taken off once a token was written",
                                            -2,
                                            2};
inline constexpr BodyField kLogitBias{"logit_bias", FieldShape::object, body::kOpenAi,
                                      "from token ids to what is added, -100 to 100"};
inline constexpr BodyField kSeed{"seed", FieldShape::integer, body::kAnswers,
                                 "equal seeds and requests give equal answers, on any placement"};

// ---- where answers end
inline constexpr BodyField kMaxTokens{"max_tokens",
                                      FieldShape::integer,
                                      body::kOpenAi,
                                      "of the answer; -1: what the context leaves. Completions: 16 "
                                      "if it is missing, 0 with echo computes the prompt only",
                                      -1,
                                      kMost32};
inline constexpr BodyField kMaxCompletionTokens{"max_completion_tokens",
                                                FieldShape::integer,
                                                body::kOpenAi,
                                                "max_tokens by its newer name",
                                                -1,
                                                kMost32};
inline constexpr BodyField kMinTokens{"min_tokens",
                                      FieldShape::integer,
                                      body::kOpenAi | body::kResponses,
                                      "of the answer, before it may end",
                                      0,
                                      kMost32};
inline constexpr BodyField kStop{"stop", FieldShape::texts, body::kOpenAi | body::kResponses,
                                 "ends the answer before one of these"};
inline constexpr BodyField kStopTokenIds{"stop_token_ids", FieldShape::array, body::kOpenAi,
                                         "ends the answer at one of these"};
inline constexpr BodyField kIgnoreEos{"ignore_eos", FieldShape::boolean, body::kAnswers,
                                      "goes on behind the model's end of text"};

// ---- how it comes
inline constexpr BodyField kStream{"stream", FieldShape::boolean,
                                   body::kAnswers | body::kOllama | body::kWhatIf,
                                   "the answer comes as events, as it is written (Ollama's "
                                   "endpoints: lines, unless this is false)"};
inline constexpr BodyField kStreamOptions{"stream_options", FieldShape::object, body::kOpenAi,
                                          "what a stream tells besides"};
inline constexpr BodyField kIncludeUsage{"stream_options.include_usage", FieldShape::boolean,
                                         body::kOpenAi, "usage in a last event"};
inline constexpr BodyField kContinuousUsage{"stream_options.continuous_usage_stats",
                                            FieldShape::boolean, body::kOpenAi,
                                            "usage with each token"};
inline constexpr BodyField kSkipSpecialTokens{"skip_special_tokens", FieldShape::boolean,
                                              body::kOpenAi,
                                              "control tokens are left out of the text (true)"};
inline constexpr BodyField kN{
    "n", FieldShape::integer, body::kOpenAi, "answers to each prompt; at most max_n", 1, kMost32};
inline constexpr BodyField kBestOf{"best_of",
                                   FieldShape::integer,
                                   body::kOpenAi,
                                   "answers that are made, of which the best n are sent; beams "
                                   "with use_beam_search",
                                   0,
                                   kMost32};
inline constexpr BodyField kUseBeamSearch{"use_beam_search", FieldShape::boolean, body::kOpenAi,
                                          "searches the likeliest answers with best_of beams"};
inline constexpr BodyField kLengthPenalty{
    "length_penalty", FieldShape::number, body::kOpenAi, "exponent of a beam's length", -10, 10};
inline constexpr BodyField kEarlyStopping{"early_stopping", FieldShape::any, body::kOpenAi,
                                          "true, false or \"never\": when a search is over"};
inline constexpr BodyField kSuffix{"suffix", FieldShape::text, body::kCompletions,
                                   "the text behind the answer, which fills in; with a prompt of "
                                   "text, for models that are made for it"};
inline constexpr BodyField kEcho{"echo", FieldShape::boolean, body::kCompletions,
                                 "the text begins with the prompt"};
inline constexpr BodyField kLogprobs{"logprobs", FieldShape::any, body::kOpenAi,
                                     "chat: true or false; completions: of how many tokens"};
inline constexpr BodyField kTopLogprobs{"top_logprobs",
                                        FieldShape::integer,
                                        body::kChat,
                                        "of so many of the likeliest tokens; at most max_logprobs",
                                        0,
                                        kMost32};
inline constexpr BodyField kPriority{
    "priority",
    FieldShape::integer,
    body::kAnswers | body::kEmbeddings | body::kRerank | body::kScore,
    "lower goes first; below 0 also in the workers' batches",
    -kMost32,
    kMost32};
inline constexpr BodyField kUser{"user", FieldShape::text, body::kOpenAi | body::kResponses,
                                 "taken, and not used"};
inline constexpr BodyField kMetadata{"metadata", FieldShape::object,
                                     body::kOpenAi | body::kResponses | body::kBatch,
                                     "texts by name, which come back"};

// ---- drafts
inline constexpr BodyField kMaxDrafts{"speculative.n_max",
                                      FieldShape::integer,
                                      body::kOpenAi,
                                      "tokens that are drafted ahead; 0: none",
                                      0,
                                      64};
inline constexpr BodyField kPrediction{"prediction", FieldShape::object, body::kOpenAi,
                                       "text that the answer may be like"};

// ---- chats
inline constexpr BodyField kAddGenerationPrompt{"add_generation_prompt", FieldShape::boolean,
                                                body::kChat | body::kTokenize,
                                                "the prompt ends where the answer begins (true)"};
inline constexpr BodyField kTemplateKwargs{"chat_template_kwargs", FieldShape::object,
                                           body::kChat | body::kMessages | body::kResponses,
                                           "variables for the model's chat template"};
inline constexpr BodyField kEnableThinking{"enable_thinking", FieldShape::boolean, body::kChat,
                                           "for the template: whether the model is to think"};
inline constexpr BodyField kReasoningEffort{
    "reasoning_effort", FieldShape::text, body::kChat,
    "for the template: none, minimal, low, medium, high, xhigh or max"};
inline constexpr BodyField kThoughtBudget{"thinking_token_budget",
                                          FieldShape::integer,
                                          body::kChat,
                                          "tokens after which a thought is closed; -1: any number",
                                          -1,
                                          1 << 30};
inline constexpr BodyField kThoughtBudgetTokens{"thinking_budget_tokens",
                                                FieldShape::integer,
                                                body::kChat,
                                                "the same as llama.cpp calls it",
                                                -1,
                                                1 << 30};
inline constexpr BodyField kTools{
    "tools", FieldShape::array,
    body::kChat | body::kMessages | body::kResponses | body::kOllamaChat | body::kTokenize,
    "functions that the model may call"};
inline constexpr BodyField kToolChoice{"tool_choice", FieldShape::any,
                                       body::kChat | body::kMessages | body::kResponses,
                                       "auto, none, required, a function or allowed_tools; "
                                       "messages: an object of type auto, any, tool or none"};
inline constexpr BodyField kParallelToolCalls{"parallel_tool_calls", FieldShape::boolean,
                                              body::kChat | body::kResponses,
                                              "whether more than one call may come (true)"};

// ---- what answers must be
inline constexpr BodyField kResponseFormat{"response_format", FieldShape::object, body::kOpenAi,
                                           "text, json_object or json_schema"};
inline constexpr BodyField kGrammar{"grammar", FieldShape::text, body::kOpenAi,
                                    "a grammar in llama.cpp's notation (GBNF)"};
inline constexpr BodyField kStructuredOutputs{"structured_outputs", FieldShape::object,
                                              body::kOpenAi,
                                              "one of json, regex, choice, grammar, json_object"};
inline constexpr BodyField kGuidedJson{"guided_json", FieldShape::any, body::kOpenAi,
                                       "a JSON schema, or its text"};
inline constexpr BodyField kGuidedRegex{"guided_regex", FieldShape::text, body::kOpenAi,
                                        "a pattern for the whole answer"};
inline constexpr BodyField kGuidedChoice{"guided_choice", FieldShape::array, body::kOpenAi,
                                         "texts of which the answer is one"};
inline constexpr BodyField kGuidedGrammar{"guided_grammar", FieldShape::text, body::kOpenAi,
                                          "the same as grammar"};

// ---- embeddings
inline constexpr BodyField kInput{"input",
                                  FieldShape::prompt,
                                  body::kEmbeddings | body::kOllamaEmbed,
                                  "texts, or their token ids; at most max_inputs",
                                  0,
                                  0,
                                  true};
inline constexpr BodyField kDimensions{"dimensions",
                                       FieldShape::integer,
                                       body::kEmbeddings | body::kOllamaEmbed,
                                       "values of each embedding, at most the model's width",
                                       1,
                                       kMost32};
inline constexpr BodyField kEncodingFormat{"encoding_format", FieldShape::text, body::kEmbeddings,
                                           "float, or base64 of little-endian float32"};
inline constexpr BodyField kTruncate{"truncate", FieldShape::boolean,
                                     body::kOllamaEmbed | body::kOllamaSingle,
                                     "cuts what is too long, instead of refusing it"};

// ---- responses
inline constexpr BodyField kResponsesInput{
    "input", FieldShape::any, body::kResponses, "a text, or items of the conversation", 0, 0, true};
inline constexpr BodyField kInstructions{"instructions", FieldShape::text, body::kResponses,
                                         "what goes before as the system's message"};
inline constexpr BodyField kMaxOutputTokens{
    "max_output_tokens", FieldShape::integer, body::kResponses, "of the answer", 1, kMost32};
inline constexpr BodyField kTextFormat{"text", FieldShape::object, body::kResponses,
                                       "format: text, json_object or json_schema"};
inline constexpr BodyField kReasoning{"reasoning", FieldShape::object, body::kResponses,
                                      "effort, as reasoning_effort of chats"};
inline constexpr BodyField kStore{"store", FieldShape::boolean, body::kResponses,
                                  "others may go on from this response (true)"};
inline constexpr BodyField kPreviousResponse{"previous_response_id", FieldShape::text,
                                             body::kResponses, "goes on from that one"};
inline constexpr BodyField kBackground{"background", FieldShape::boolean, body::kResponses,
                                       "only false is supported"};
inline constexpr BodyField kResponsesTopLogprobs{"top_logprobs", FieldShape::integer,
                                                 body::kResponses, "only 0 is supported"};

// ---- messages
inline constexpr BodyField kMessagesMaxTokens{
    "max_tokens", FieldShape::integer, body::kMessages, "of the answer", 1, kMost32, true};
inline constexpr BodyField kSystem{"system", FieldShape::any,
                                   body::kMessages | body::kOllamaGenerate,
                                   "what goes before the conversation: a text, or blocks of text"};
inline constexpr BodyField kStopSequences{"stop_sequences", FieldShape::array, body::kMessages,
                                          "texts before which the answer ends"};
inline constexpr BodyField kThinking{"thinking", FieldShape::object, body::kMessages,
                                     "type enabled, disabled or adaptive; budget_tokens"};
inline constexpr BodyField kOneAtATime{"tool_choice.disable_parallel_tool_use", FieldShape::boolean,
                                       body::kMessages, "one call at most"};
inline constexpr BodyField kOutputConfig{"output_config", FieldShape::object, body::kMessages,
                                         "effort; format of type json_schema"};

// ---- Ollama's
inline constexpr BodyField kOllamaPrompt{"prompt", FieldShape::text,
                                         body::kOllamaGenerate | body::kOllamaSingle,
                                         "what is asked; without one the model is only looked for"};
inline constexpr BodyField kRaw{"raw", FieldShape::boolean, body::kOllamaGenerate,
                                "the prompt is taken as it is, without the chat template"};
inline constexpr BodyField kFormat{"format", FieldShape::any, body::kOllama,
                                   "\"json\", or a JSON schema"};
inline constexpr BodyField kThink{"think", FieldShape::any, body::kOllama,
                                  "true, false, or an effort"};
inline constexpr BodyField kOptions{"options", FieldShape::object, body::kOllama,
                                    "num_predict, temperature, top_k, top_p, min_p, seed, stop, "
                                    "repeat_penalty, presence_penalty, frequency_penalty"};
inline constexpr BodyField kShowName{"name", FieldShape::text, body::kOllamaShow,
                                     "model by its older name"};

// ---- tokens
inline constexpr BodyField kTokenizePrompt{"prompt", FieldShape::text, body::kTokenize,
                                           "the text; or content, or messages"};
inline constexpr BodyField kContent{"content", FieldShape::text, body::kTokenize,
                                    "the text, as llama.cpp's server has it"};
inline constexpr BodyField kAddSpecialTokens{"add_special_tokens", FieldShape::boolean,
                                             body::kTokenize,
                                             "with a prompt: begins as the model's texts do"};
inline constexpr BodyField kAddSpecial{"add_special", FieldShape::boolean, body::kTokenize,
                                       "the same with content (false)"};
inline constexpr BodyField kTokens{
    "tokens", FieldShape::array, body::kDetokenize, "token ids", 0, 0, true};

// ---- scores of documents
inline constexpr BodyField kQuery{
    "query", FieldShape::text, body::kRerank, "what is looked for", 0, 0, true};
inline constexpr BodyField kDocuments{
    "documents", FieldShape::any, body::kRerank | body::kScore,
    "a text, or some (at most max_inputs), also as objects with a text; score: text_2 by its newer "
    "name"};
inline constexpr BodyField kTopN{
    "top_n", FieldShape::integer, body::kRerank, "so many of the best are told; 0: all", 0,
    kMost32};
inline constexpr BodyField kReturnDocuments{"return_documents", FieldShape::boolean, body::kRerank,
                                            "results have their texts (true)"};
inline constexpr BodyField kText1{"text_1", FieldShape::any, body::kScore,
                                  "what is looked for: a text for all, or one for each of text_2"};
inline constexpr BodyField kQueries{"queries", FieldShape::any, body::kScore,
                                    "text_1 by its newer name"};
inline constexpr BodyField kText2{"text_2", FieldShape::any, body::kScore,
                                  "a text, or some, as documents"};
inline constexpr BodyField kInstruction{"instruction", FieldShape::text,
                                        body::kRerank | body::kScore,
                                        "what makes a document a good one, in place of the usual"};
inline constexpr BodyField kTruncatePrompt{
    "truncate_prompt_tokens", FieldShape::any, body::kRerank | body::kScore,
    "is not supported: texts that are too long are an error"};

// ---- batches
inline constexpr BodyField kInputFile{"input_file_id",
                                      FieldShape::text,
                                      body::kBatch,
                                      "a file that was stored, with a request in each line",
                                      0,
                                      0,
                                      true};
inline constexpr BodyField kBatchEndpoint{
    "endpoint", FieldShape::text, body::kBatch, "where its requests go", 0, 0, true};
inline constexpr BodyField kWindow{"completion_window", FieldShape::text, body::kBatch,
                                   "24h, or another number of minutes (m), hours (h), days (d)"};

// ---- changes of the cluster
inline constexpr BodyField kChanges{
    "changes", FieldShape::array, body::kWhatIf,
    "one after the other: add, remove or slow a machine, or set a link; none: planning anew"};
inline constexpr BodyField kSeconds{
    "seconds", FieldShape::number, body::kWhatIf, "for the searches (10)", 1, 60};
inline constexpr BodyField kSuggest{"suggest", FieldShape::boolean, body::kWhatIf,
                                    "say, too, which machines and links would help most"};

}  // namespace field

// All of them, in the order in which they are shown.
std::span<const BodyField> all_body_fields();

}  // namespace helix::api
