# shellcheck shell=sh
# Sourced by scripts that build Go programs into a folder of .deps. Needs a function `say`, and the flags of versions.env.

need_minor=26
ticker=
partial=

# Removes the rest of a failed build: Go has its own cache.
clean_up() {
    stop_ticker
    [ -z "$partial" ] || rm -rf "$partial"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

hash256() {
    if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi | cut -c 1-12
}

# source_hash DIRECTORY: of a module's files.
source_hash() {
    (cd "$1" && cat go.mod go.sum && find . -name '*.go' -type f | LC_ALL=C sort | xargs cat) | hash256
}

# check_go LOSS SKIPPED: exits with 3 if there is no usable Go, which is reported with what is lost by it.
check_go() {
    if ! command -v go >/dev/null 2>&1; then
        say "*** Go is missing: $1, $2 are skipped. Install Go 1.$need_minor or newer. ***"
        exit 3
    fi
    # GOTOOLCHAIN=local: the installed version, not one that go.mod would fetch.
    minor=$(GOTOOLCHAIN=local GOFLAGS='' go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    if [ -z "$minor" ] || [ "$minor" -lt "$need_minor" ]; then
        say "*** Go 1.$need_minor or newer is needed, found '$(go version 2>&1)'. T${2#t} are skipped. ***"
        exit 3
    fi
}

stop_ticker() {
    [ -z "$ticker" ] || kill "$ticker" 2>/dev/null || :
    ticker=
}

# start_ticker PID WHAT: reports every 20 seconds that the build runs, and ends with it even if this script is killed.
start_ticker() {
    (
        me=$1
        waited=0
        while kill -0 "$me" 2>/dev/null; do
            sleep 1 >/dev/null 2>&1
            waited=$((waited + 1))
            [ $((waited % 20)) -ne 0 ] || say "still building $2 (${waited} s; the whole takes minutes the first time)"
        done
    ) </dev/null >/dev/null &
    ticker=$!
}

# kubernetes_flags VERSION: the linker's flags for programs of Kubernetes.
kubernetes_flags() {
    of=k8s.io/component-base/version
    minor=${1#*.}
    echo "-s -w -X $of.gitVersion=v$1 -X $of.gitMajor=${1%%.*} -X $of.gitMinor=${minor%%.*} -X k8s.io/client-go/pkg/version.gitVersion=v$1"
}

# go_build DIRECTORY LINKER_FLAGS ARGUMENT...
go_build() {
    cd_to=$1
    linker=$2
    shift 2
    # shellcheck disable=SC2086 # several flags
    (cd "$cd_to" && env $GO_BUILD_ENVIRONMENT CGO_ENABLED=0 GOTOOLCHAIN=local go build $GO_BUILD_FLAGS -ldflags "$linker" "$@")
}

# begin TARGET: makes the folder `partial`, which `finish` puts in the place of the target.
begin() {
    partial=$1.partial.$$
    rm -rf "$partial"
    mkdir -p "$partial"
}

finish() {
    rm -rf "$1"
    mv "$partial" "$1"
    partial=
    say "${1##*/} is built"
}

# point_current DIRECTORY NAME: a rename, so the link is never missing.
point_current() {
    ln -s "$2" "$1/current.$$"
    mv -fT "$1/current.$$" "$1/current"
}
