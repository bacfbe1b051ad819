# shellcheck shell=bash
# Sourced: unpacks Debian packages without installing them. Needs a function `say`.

# debian_lists DIRECTORY: reads the machine's package sources into lists of the directory's own, since the machine's may be
# old or missing, and sets `apt` to the options for them.
debian_lists() {
    mkdir -p "$1"/{lists/partial,cache/archives/partial}
    apt=(-o "Dir::State::Lists=$1/lists" -o "Dir::Cache=$1/cache" -o APT::Sandbox::User=root)
    if ! command -v apt-get >/dev/null 2>&1; then
        say "there is no apt-get; install by other means what it would fetch"
        return 1
    fi
    apt-get "${apt[@]}" update -qq >&2
}

# fetch PACKAGE...: unpacks packages into the current directory, by the options `apt`.
fetch() {
    apt-get "${apt[@]}" download -qq "$@" >&2 || return 1
    local package
    for package in ./*.deb; do
        dpkg-deb -x "$package" .
        rm -f "$package"
    done
}

# fetch_with_libraries DIRECTORY PACKAGE...: unpacks packages, and those that apt would install beside them on this machine, into
# DIRECTORY/unpacked, and puts their shared libraries into DIRECTORY/libraries.
fetch_with_libraries() {
    local directory=$1 packages
    shift
    mkdir -p "$directory/unpacked" "$directory/libraries"
    debian_lists "$directory"
    packages=$(apt-get "${apt[@]}" install -s --no-install-recommends "$@" | awk '$1 == "Inst" { print $2 }')
    # Installed ones are not among them.
    # shellcheck disable=SC2086 # a list of names
    (cd "$directory/unpacked" && fetch $packages "$@")
    find "$directory/unpacked/usr/lib" -name '*.so*' -exec cp -P {} "$directory/libraries" \; 2>/dev/null || :
}
