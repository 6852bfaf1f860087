# The scene: containers a, b and c, each a cgroup and a network namespace behind a routed veth pair,
# and a namespace `outside` behind another one that is no container. The receive work of b and c is
# steered to CPU 0.
echo '+cpu +cpuset' >/sys/fs/cgroup/cgroup.subtree_control
ip() { /bin/ip "$@"; } # without the path busybox takes its own, which knows no namespaces
mkdir -p /sys/fs/cgroup/tenants /run/scene
echo '+cpu +cpuset' >/sys/fs/cgroup/tenants/cgroup.subtree_control
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
namespace() { # NAME NUMBER
    ip netns add "$1"
    ip link add "host-$1" type veth peer name eth0 netns "$1"
    ip addr add "10.9.$2.1/24" dev "host-$1"; ip link set "host-$1" up
    ip -n "$1" addr add "10.9.$2.2/24" dev eth0
    ip -n "$1" link set lo up; ip -n "$1" link set eth0 up
    ip -n "$1" route add default via "10.9.$2.1"
}
container() { # NAME NUMBER
    mkdir "/sys/fs/cgroup/tenants/$1"
    namespace "$1" "$2"
    # The container's first process, which stays.
    (echo 0 >"/sys/fs/cgroup/tenants/$1/cgroup.procs"
     exec /bin/ip netns exec "$1" sleep 1000000) >/dev/null 2>&1 </dev/null &
    echo $! >"/run/scene/$1"
}
container a 1; container b 2; container c 3; namespace outside 4
ip netns exec b sh -c 'echo 1 >/sys/class/net/eth0/queues/rx-0/rps_cpus'
ip netns exec c sh -c 'echo 1 >/sys/class/net/eth0/queues/rx-0/rps_cpus'
sleep 1
