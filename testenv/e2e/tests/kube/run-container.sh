# Runs a container's command as a container runtime would: in a root of its own that cannot be written, with its volumes in
# their places, as its user, without any capability. CONTAINER_* tell what; the arguments are the command. Mounts vanish with it.
set -eu
root=$CONTAINER_ROOT
mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs "$root"
mkdir -p "$root/usr/lib" "$root/usr/local/bin" "$root/usr/local/lib/portcullis" "$root/proc" "$root/dev" "$root/.run"

# bind SOURCE TARGET: as it can be written at its source.
bind() {
    if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "$(dirname "$2")" && : >"$2"; fi
    mount --bind "$1" "$2"
}
bind_read_only() {
    bind "$1" "$2"
    # In a user namespace the options of a mount of the host's have to stay.
    mount -o remount,bind,ro "$2" 2>/dev/null || mount -o remount,bind,ro,nosuid,nodev "$2"
}
for directory in bin lib lib32 lib64; do
    [ ! -L "/$directory" ] || ln -s "$(readlink "/$directory")" "$root/$directory"
    [ "$directory" != bin ] || continue
    [ -L "/$directory" ] || [ ! -d "/$directory" ] || bind_read_only "/$directory" "$root/$directory"
    [ ! -d "/usr/$directory" ] || bind_read_only "/usr/$directory" "$root/usr/$directory"
done
for device in null zero random urandom; do bind "/dev/$device" "$root/dev/$device"; done
# OCI runtime specification, "Default Devices" and "Dev symbolic links": every runtime makes this one.
ln -s /proc/self/fd "$root/dev/fd"
mount --rbind /proc "$root/proc"
bind_read_only "$(command -v setpriv)" "$root/.run/setpriv"
# What the image holds, and volumes: SOURCE:TARGET, and TARGET of those that begin empty.
for pair in $CONTAINER_FILES; do bind_read_only "${pair%%:*}" "$root${pair#*:}"; done
for pair in $CONTAINER_SHARED; do bind "${pair%%:*}" "$root${pair#*:}"; done
for target in $CONTAINER_EMPTY; do
    mkdir -p "$root$target"
    mount -t tmpfs -o "mode=2770,gid=$CONTAINER_GROUP" tmpfs "$root$target"
done
mount -o remount,bind,ro "$root"

identity="--reuid=$CONTAINER_USER --regid=$CONTAINER_GROUP --clear-groups"
# In a user namespace there is one user only.
[ "$CONTAINER_USER" != 0 ] || identity=
cd /
# shellcheck disable=SC2086 # flags
exec chroot "$root" /.run/setpriv $identity --no-new-privs --bounding-set=-all --inh-caps=-all --pdeathsig=KILL -- "$@"
