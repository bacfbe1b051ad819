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
