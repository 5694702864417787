#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/backend/provider.h"

namespace helix::engine {

// What computes: a row for each kind of device.
struct BackendKind {
    const char* name;
    const char* help;  // after the name; "" where the name says it
    base::Result<std::shared_ptr<BackendProvider>> (*make)(const BackendOptions& options);
};

// The first is the default.
std::span<const BackendKind> backend_kinds();

// "cpu, or modelled: real protocol, modelled time"
std::string backend_kinds_help();

// invalid: no kind of this name, or options that do not suit it; names the option.
base::Result<std::shared_ptr<BackendProvider>> make_backend_provider(std::string_view kind,
                                                                     const BackendOptions& options);

}  // namespace helix::engine
