# The dataplane of the README in two namespaces: an unprivileged server, and a client on Linux.
. /steps/lib.sh

snapshot /tmp/before

/bin/ip netns add server; /bin/ip netns add client
/bin/ip -n server link add eth0 type veth peer name eth0 netns client
/bin/ip -n server link set eth0 up; /bin/ip -n client link set eth0 up
/bin/ip -n client address add 10.0.0.2/24 dev eth0
/bin/ip netns exec client ethtool -K eth0 tx off
cat >/tmp/dataplane.toml <<'END'
device.name = "eth0"
network.addresses = ["10.0.0.9/24"]

[[application]]
name = "web"
user = "nobody"
bind = ["tcp/10.0.0.9:80"]
END
/bin/ip netns exec server cofferdam dataplane run --config /tmp/dataplane.toml \
    >/tmp/dataplane.log 2>&1 &
dataplane=$!
check 'dataplane: starts' '
    await 100 "cofferdam dataplane top --once >/dev/null 2>&1 || ! kill -0 $dataplane" &&
    kill -0 $dataplane'
/bin/setpriv --reuid nobody --clear-groups \
    cofferdam dataplane serve http 10.0.0.9:80 --name web >/tmp/web.log 2>&1 &
web=$!
check 'dataplane: curl gets the page' '
    await 40 "/bin/ip netns exec client curl -s -m 5 http://10.0.0.9/ >/tmp/page"
    cat /tmp/page; grep -q "Served by the dataplane" /tmp/page'
kill $dataplane
wait $dataplane
report 'dataplane: ends in good order' $? "exit code $?: $(tail -1 /tmp/dataplane.log)"
wait $web 2>/dev/null
cat /tmp/dataplane.log /tmp/web.log
/bin/ip netns del server; /bin/ip netns del client
same 'dataplane: the host is as before' /tmp/before
