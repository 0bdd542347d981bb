#!/bin/sh
# Tries the Debian packages in a bare tree, as scripts/try-debs does: install, run, upgrade, remove, purge. The packages
# are in /work. Ends at the first step that is not as it should be.
set -eu
export DEBIAN_FRONTEND=noninteractive

say() { echo "trial: $*"; }
expect() { "$@" || { echo "trial: not so: $*" >&2; exit 1; }; }

# A copy of a package with a higher version, for the upgrade.
with_version() {
  dpkg-deb -R "$1" /tmp/again
  sed -i "s/^Version: .*/Version: $2/; s/libpeercache0 (= [^)]*)/libpeercache0 (= $2)/" /tmp/again/DEBIAN/control
  dpkg-deb -b /tmp/again "$3" >/dev/null
  rm -r /tmp/again
}

say "install"
apt-get update -q >/dev/null
apt-get install -y -q --no-install-recommends /work/*.deb >/tmp/log 2>&1 || { tail -20 /tmp/log; exit 1; }
expect peercache version
expect test -d /var/lib/peercache
expect getent passwd peercache
expect python3 -c "import peercache"
expect test -e /usr/include/peercache/peercache.h
expect python3 -c "import ctypes; ctypes.CDLL('libpeercache.so.0').peercache_connect"
peercache demo >/tmp/log 2>&1 || { tail -20 /tmp/log; exit 1; }

try_node() {
  as="setpriv --reuid $1 --regid $1 --clear-groups"
  rm -f /tmp/ready /tmp/greeting
  mkfifo -m 666 /tmp/ready
  $as peercache-node --config /etc/peercache/peercache.toml --pool-size 64MiB --log-level error >/tmp/ready &
  node=$!
  read -r line </tmp/ready
  expect test "${line%% *}" = ready
  expect $as peercache put greeting --value hello
  expect $as peercache get greeting /tmp/greeting
  expect test "$(cat /tmp/greeting)" = hello
  kill "$node"
  wait "$node"
}
for user in root peercache; do
  say "a node by the unit's command line, as $user"
  try_node "$user"
done

say "upgrade keeps the configuration that was edited"
echo "# edited" >>/etc/peercache/peercache.toml
for package in /work/*.deb; do
  with_version "$package" 99 "/tmp/$(basename "$package")"
done
dpkg -i /tmp/*.deb >/tmp/log 2>&1 || { tail -20 /tmp/log; exit 1; }
expect test "$(dpkg-query -W -f '${Version}' peercache)" = 99
expect grep -q "# edited" /etc/peercache/peercache.toml
expect peercache version

say "remove keeps configuration and cache"
touch /var/lib/peercache/page
dpkg -r peercache libpeercache-dev libpeercache0 python3-peercache >/tmp/log 2>&1 || { tail -20 /tmp/log; exit 1; }
expect test ! -e /usr/bin/peercache-node
expect test ! -e /usr/include/peercache
expect test ! -e /usr/lib/python3/dist-packages/peercache
expect test -e /etc/peercache/peercache.toml
expect test -e /var/lib/peercache/page

say "purge leaves nothing"
dpkg -P peercache libpeercache0 >/tmp/log 2>&1 || { tail -20 /tmp/log; exit 1; }
expect test ! -e /etc/peercache
expect test ! -e /var/lib/peercache
say "ok"
