# helix_shaders(TARGET FOLDER): compiles each FOLDER/*.comp into SPIR-V, twice: "fused" for devices whose fma rounds
# once, "exact" (HELIX_EXACT_FMA defined) for the others, where numerics.glsl rounds once with doubles. The target gets
# both as constants: #include "shaders/TARGET.h" declares helix::engine::shaders::NAME for NAME.comp.
# FOLDER/matrix/*.spv are kept as they are: their sources need a newer compiler (tools/matrix_shaders.py).
function(helix_shaders target folder)
    set(out ${CMAKE_BINARY_DIR}/shaders)
    file(GLOB shaders CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.comp)
    set(generated)
    set(declared "")
    set(defined "")
    set(listed "")
    foreach(shader ${shaders})
        cmake_path(GET shader STEM name)
        set(arrays "")
        foreach(variant fused exact)
            set(file ${out}/${name}_${variant}.inc)
            set(define "")
            if(variant STREQUAL "exact")
                set(define -DHELIX_EXACT_FMA)
            endif()
            add_custom_command(OUTPUT ${file} DEPENDS ${shader} DEPFILE ${file}.d VERBATIM
                COMMAND ${GLSLANG_VALIDATOR} --quiet --target-env vulkan1.2 -g0 ${define}
                    -I${CMAKE_SOURCE_DIR}/${folder} --depfile ${file}.d --vn ${name}_${variant} -o ${file} ${shader}
                COMMENT "Compiling shader ${name}, ${variant}")
            list(APPEND generated ${file})
            string(APPEND arrays "#include \"${name}_${variant}.inc\"\n")
        endforeach()
        string(APPEND declared "extern const Shader ${name};\n")
        string(APPEND defined "${arrays}const Shader ${name}{\"${name}\", ${name}_fused, ${name}_exact};\n")
        string(APPEND listed "&${name}, ")
    endforeach()
    file(GLOB kept CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/matrix/*.spv)
    foreach(shader ${kept})
        cmake_path(GET shader STEM name)
        file(READ ${shader} bytes HEX)
        string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1," words "${bytes}")
        file(CONFIGURE OUTPUT ${out}/${name}_fused.inc CONTENT
            "constexpr std::uint32_t ${name}_fused[] = {${words}};\n")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shader})
        string(APPEND declared "extern const Shader ${name};\n")
        string(APPEND defined "#include \"${name}_fused.inc\"\nconst Shader ${name}{\"${name}\", ${name}_fused, {}};\n")
        string(APPEND listed "&${name}, ")
    endforeach()
    set(space "namespace helix::engine::shaders {\n")
    file(CONFIGURE OUTPUT ${out}/shaders/${target}.h CONTENT
        "#pragma once\n#include \"engine/vulkan/shader.h\"\n${space}${declared}}\n")
    file(CONFIGURE OUTPUT ${out}/${target}_shaders.cc CONTENT
        "#include \"shaders/${target}.h\"\n${space}${defined}std::span<const Shader* const> all() {
    static constexpr const Shader* kAll[] = {${listed}};\n    return kAll;\n}\n}\n")
    add_custom_target(${target}_shaders DEPENDS ${generated})
    add_dependencies(${target} ${target}_shaders)
    target_sources(${target} PRIVATE ${out}/${target}_shaders.cc)
    set_source_files_properties(${out}/${target}_shaders.cc PROPERTIES
        SKIP_UNITY_BUILD_INCLUSION ON OBJECT_DEPENDS "${generated}")
    target_include_directories(${target} PUBLIC ${out})
endfunction()
