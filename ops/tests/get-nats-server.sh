#!/bin/sh
# Tests ops/get-nats-server without the network: with programs that only claim a
# version, and, on Debian, with an unsigned package repository on disk.
set -u

script=$(cd "$(dirname "$0")/.." && pwd)/get-nats-server
room=$(mktemp -d "${TMPDIR:-/tmp}/get-nats-server-test.XXXXXX")
trap 'rm -rf "$room"' EXIT
chmod 755 "$room"
failures=0

# A nats-server in folder $1 that claims version $2.
claim() {
    mkdir -p "$1"
    printf '#!/bin/sh\necho "nats-server: v%s"\n' "$2" >"$1/nats-server"
    chmod 755 "$1/nats-server"
}

# A PATH with the everyday programs, without apt and without any nats-server.
bare=$room/bare
mkdir "$bare"
for program in sh sed awk head tail cat mkdir ln cp mv rm mktemp chmod find; do
    ln -s "$(command -v "$program")" "$bare/$program"
done

# Runs the script with PATH $1 on folder $2; leaves stdout, stderr and status.
run() {
    PATH=$1 "$script" "$2" >"$room/stdout" 2>"$room/stderr"
    status=$?
    stdout=$(cat "$room/stdout")
}

check() {
    if eval "$2"; then
        echo "ok    $1"
    else
        echo "FAIL  $1: status $status, stdout '$stdout', stderr:"
        cat "$room/stderr"
        failures=$((failures + 1))
    fi
}

claim "$room/a" 2.12.0
run "$bare" "$room/a"
check "the oldest allowed version in the folder is reused" '[ $status = 0 ] && [ "$stdout" = "$room/a/nats-server" ]'

claim "$room/b" 2.11.9
run "$bare" "$room/b"
check "a version that is too old is refused with advice" \
    '[ $status = 1 ] && [ -z "$stdout" ] && grep -q "2.12.0 or newer" "$room/stderr" && grep -q NATS_URL "$room/stderr"'

claim "$room/c" 10.0.0
run "$bare" "$room/c"
check "versions are compared as numbers" '[ $status = 0 ]'

claim "$room/d" 2.12.1-beta.2
run "$bare" "$room/d"
check "a pre-release suffix is understood" '[ $status = 0 ]'

claim "$room/path" 2.15.1
run "$room/path:$bare" "$room/e"
check "one on PATH is linked into the folder" \
    '[ $status = 0 ] && [ "$stdout" = "$room/e/nats-server" ] && [ "$("$stdout" --version)" = "nats-server: v2.15.1" ]'

export NATS_SERVER_NO_PATH=1
run "$room/path:$bare" "$room/f"
check "NATS_SERVER_NO_PATH=1 leaves PATH alone" '[ $status = 1 ] && [ ! -e "$room/f/nats-server" ]'
unset NATS_SERVER_NO_PATH

claim "$room/old" 2.10.27
run "$room/old:$bare" "$room/g"
check "a version on PATH that is too old is refused" '[ $status = 1 ] && [ ! -e "$room/g/nats-server" ]'

claim "$room/h" 2.9.1
run "$room/path:$bare" "$room/h"
check "an old one in the folder is replaced from PATH" '[ $status = 0 ] && [ "$("$stdout" --version)" = "nats-server: v2.15.1" ]'

mkdir "$room/i"
printf '#!/bin/sh\nexit 3\n' >"$room/i/nats-server"
chmod 755 "$room/i/nats-server"
run "$bare" "$room/i"
check "a program that does not answer --version is refused" '[ $status = 1 ]'

NATS_SERVER_MINIMUM=2.16.0 run "$room/path:$bare" "$room/j"
check "the minimum can be raised" '[ $status = 1 ] && grep -q "2.16.0 or newer" "$room/stderr"'

cd "$room" && run "$room/path:$bare" relative/folder
check "the printed path is absolute" '[ $status = 0 ] && [ "$stdout" = "$room/relative/folder/nats-server" ]'

# An unsigned repository with a package that would do, offered through apt's own configuration.
codename=$(. /etc/os-release 2>/dev/null && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}") || codename=
if [ -n "$codename" ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    claim "$room/deb/usr/bin" 2.15.1
    mkdir -p "$room/deb/DEBIAN" "$room/parts" "$room/repo/pool"
    architecture=$(dpkg --print-architecture)
    printf 'Package: nats-server\nVersion: 2.15.1-1\nArchitecture: %s\nMaintainer: nobody <nobody@example.org>\nDescription: test\n' \
        "$architecture" >"$room/deb/DEBIAN/control"
    dpkg-deb --build "$room/deb" "$room/repo/pool/nats-server.deb" >/dev/null
    for suite in "$codename" newer; do
        index=$room/repo/dists/$suite/main/binary-$architecture
        mkdir -p "$index"
        {
            cat "$room/deb/DEBIAN/control"
            echo "Filename: pool/nats-server.deb"
            echo "Size: $(wc -c <"$room/repo/pool/nats-server.deb")"
            echo "SHA256: $(sha256sum "$room/repo/pool/nats-server.deb" | cut -d ' ' -f 1)"
        } >"$index/Packages"
        {
            printf 'Suite: %s\nCodename: %s\nComponents: main\nArchitectures: %s\nSHA256:\n' "$suite" "$suite" "$architecture"
            echo " $(sha256sum "$index/Packages" | cut -d ' ' -f 1) $(wc -c <"$index/Packages") main/binary-$architecture/Packages"
        } >"$room/repo/dists/$suite/Release"
    done
    echo "deb [trusted=yes] file:$room/repo $codename main" >"$room/parts/local.list"
    printf 'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "%s";\nAcquire::AllowInsecureRepositories "true";\n' \
        "$room/parts" >"$room/apt.conf"
    export APT_CONFIG="$room/apt.conf" NATS_SERVER_SUITES=newer NATS_SERVER_NO_PATH=1
    run "$PATH" "$room/k"
    check "an unsigned suite is refused, whatever apt's settings allow" \
        '[ $status = 1 ] && [ ! -e "$room/k/nats-server" ] && grep -q "could not read newer" "$room/stderr"'

    if command -v gpg >/dev/null && command -v gpgv >/dev/null; then
        export GNUPGHOME="$room/gnupg"
        mkdir -m 700 "$GNUPGHOME"
        sign() { gpg --batch --yes --quiet --local-user "$1" --clearsign -o "$room/repo/dists/newer/InRelease" "$room/repo/dists/newer/Release"; }
        for who in right wrong; do
            gpg --batch --quiet --passphrase '' --quick-generate-key "$who@example.org" rsa3072 sign never 2>/dev/null
            gpg --batch --quiet --export "$who@example.org" >"$room/$who.gpg"
        done
        chmod 644 "$room"/*.gpg
        sign wrong@example.org
        NATS_SERVER_KEYRING=$room/right.gpg run "$PATH" "$room/l"
        check "a suite signed with another key is refused" '[ $status = 1 ] && [ ! -e "$room/l/nats-server" ]'
        sign right@example.org
        NATS_SERVER_KEYRING=$room/right.gpg run "$PATH" "$room/m"
        check "a suite signed with the right key is used" '[ $status = 0 ] && [ "$("$stdout" --version)" = "nats-server: v2.15.1" ]'
        echo tampered >>"$room/repo/pool/nats-server.deb"
        NATS_SERVER_KEYRING=$room/right.gpg run "$PATH" "$room/n"
        check "a package that differs from the signed index is refused" '[ $status = 1 ] && [ ! -e "$room/n/nats-server" ]'
        gpgconf --kill all 2>/dev/null
    else
        echo "skip  signatures: no gpg here"
    fi
else
    echo "skip  package repositories: not a Debian release"
fi

if [ "$failures" -gt 0 ]; then
    echo "$failures failed"
    exit 1
fi
echo "all passed"
