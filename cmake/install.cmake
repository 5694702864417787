# What `cmake --install build/release --prefix DIR` puts where: the program, its documents, examples and licence. Packages
# and the tarball are made of the same.
include(GNUInstallDirs)
set(doc ${CMAKE_INSTALL_DATADIR}/doc/helix)

install(TARGETS helix RUNTIME)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${doc})
install(DIRECTORY docs examples DESTINATION ${doc} PATTERN __pycache__ EXCLUDE)
