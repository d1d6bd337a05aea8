# What the scripts here share; read with `.`, not run. A step that was interrupted is done again by the next run.

# Says what is done now.
say() {
	echo "$(date +%H:%M:%S) $*" >&2
}

# Ends with what is wrong and what to do.
fail() {
	echo "$(basename "$0"): $*" >&2
	exit 1
}

# A Python of at least 3.11 with venv, in $python.
need_python() {
	python=${PYTHON:-python3}
	command -v "$python" >/dev/null || fail "$python is not there: install Python 3.11 or newer, or name it with PYTHON="
	"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
		fail "$("$python" --version) is too old: install Python 3.11 or newer, or name it with PYTHON="
	"$python" -c 'import venv, ensurepip' || fail "Python's venv module is missing (Debian: apt-get install python3-venv)"
}

# At least so many gigabytes free in a folder.
need_room() {
	free=$(df -Pk "$1" | awk 'NR == 2 { print int($4 / 1000000) }')
	[ "$free" -ge "$2" ] || fail "$1 has $free GB free, $2 are needed: make room, or name another place with TIDEMILL_ENGINES_DIR="
}

# Whether $home holds $VERSION, whole.
is_installed() {
	[ "$(cat "$home/installed" 2>/dev/null)" = "$VERSION" ]
}

# Makes $home with a Python of its own, unless it is there. What is left of another version goes.
begin() {
	[ "$(cat "$home/version" 2>/dev/null)" = "$VERSION" ] && return
	rm -rf "$home"
	"$python" -m venv "$home"
	echo "$VERSION" >"$home/version"
}

# Gets packages, quietly.
get() {
	"$home/bin/python" -m pip --quiet --disable-pip-version-check "$@"
}
