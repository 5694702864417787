# helix_page(TARGET FOLDER): puts the files of the built page (web/dist) into the target, each as it is and packed with
# gzip, and lists them for api/web_page.h.
find_program(GZIP_PROGRAM gzip REQUIRED)
function(helix_page target folder)
    set(out ${CMAKE_BINARY_DIR}/page)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/${folder} ${CMAKE_SOURCE_DIR}/${folder}/*)
    if(NOT "index.html" IN_LIST files)
        message(FATAL_ERROR "helix_page: there is no ${folder}/index.html; make web builds it")
    endif()
    set(contents)
    set(defined "")
    set(listed "")
    set(number 0)
    foreach(file ${files})
        set(plain ${CMAKE_SOURCE_DIR}/${folder}/${file})
        set(packed ${out}/${file}.gz)
        cmake_path(GET packed PARENT_PATH parent)
        file(MAKE_DIRECTORY ${parent})
        add_custom_command(OUTPUT ${packed} DEPENDS ${plain} VERBATIM
            COMMAND sh -c "\"$0\" -9 -n -c \"$1\" >\"$2\"" ${GZIP_PROGRAM} ${plain} ${packed}
            COMMENT "Packing ${file} of the page")
        list(APPEND contents ${plain} ${packed})
        foreach(kind plain packed)
            set(name helix_page_${kind}_${number})
            string(APPEND defined "asm(\".pushsection .rodata\\n.global ${name}\\n.hidden ${name}\\n${name}:\\n\"
    \".incbin \\\"${${kind}}\\\"\\n.global ${name}_end\\n.hidden ${name}_end\\n${name}_end:\\n.popsection\\n\");
extern \"C\" const char ${name}[];
extern \"C\" const char ${name}_end[];\n")
        endforeach()
        string(APPEND listed "        {\"/${file}\", between(helix_page_plain_${number}, helix_page_plain_${number}_end),
         between(helix_page_packed_${number}, helix_page_packed_${number}_end)},\n")
        math(EXPR number "${number} + 1")
    endforeach()
    file(CONFIGURE OUTPUT ${out}/page_files.cc @ONLY CONTENT
        "#include <cstddef>\n#include \"api/web_page.h\"\n${defined}namespace helix::api {
std::span<const PageFile> page_files() {
    const auto between = [](const char* begin, const char* end) {
        return std::string_view(begin, static_cast<std::size_t>(end - begin));
    };
    static const PageFile kFiles[] = {\n${listed}    };\n    return kFiles;\n}\n}  // namespace helix::api\n")
    target_sources(${target} PRIVATE ${out}/page_files.cc)
    set_source_files_properties(${out}/page_files.cc PROPERTIES
        SKIP_UNITY_BUILD_INCLUSION ON OBJECT_DEPENDS "${contents}")
endfunction()
