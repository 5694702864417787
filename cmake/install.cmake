# What `cmake --install build/release --prefix DIR` puts where: the program, its manual pages and completions, which it
# prints itself, documents, examples and licence. Packages and the tarball are made of the same.
include(GNUInstallDirs)
set(doc ${CMAKE_INSTALL_DATADIR}/doc/helix)

install(TARGETS helix RUNTIME)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${doc})
install(DIRECTORY docs examples containers DESTINATION ${doc} PATTERN __pycache__ EXCLUDE)

# A program for another processor is run by what runs it here.
install(CODE "set(runner ${CMAKE_CROSSCOMPILING_EMULATOR})\nset(share ${CMAKE_INSTALL_DATADIR})\nset(man ${CMAKE_INSTALL_MANDIR})\nset(bin ${CMAKE_INSTALL_BINDIR})")
install(CODE [[
    set(root $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX})
    function(helix_prints file)
        cmake_path(GET file PARENT_PATH folder)
        file(MAKE_DIRECTORY ${folder})
        message(STATUS "Installing: ${file}")
        execute_process(COMMAND ${runner} ${root}/${bin}/helix ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
    endfunction()
    helix_prints(${root}/${man}/man1/helix.1 man)
    file(STRINGS ${root}/${man}/man1/helix.1 pages REGEX "^.fBhelix.-[a-z]+.fR.1.$")
    foreach(page ${pages})
        string(REGEX REPLACE "^.fBhelix.-([a-z]+).*$" "\\1" command "${page}")
        helix_prints(${root}/${man}/man1/helix-${command}.1 man ${command})
    endforeach()
    helix_prints(${root}/${share}/bash-completion/completions/helix completion bash)
    helix_prints(${root}/${share}/fish/vendor_completions.d/helix.fish completion fish)
    helix_prints(${root}/${share}/zsh/site-functions/_helix completion zsh)
]])
