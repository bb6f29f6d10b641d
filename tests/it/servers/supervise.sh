# Starts, stops and ends one server, as the lines on its input say, and is its parent, so that no signal can reach
# another process. At the end of its input, which comes with the end of the test process too, the server is ended
# and its directory removed.
#
# $1: the directory; the rest: the command line of the server, which stays in the foreground.
trap '' HUP INT TERM
directory=$1
shift
# A server that is started as another user may not be able to look at where the tests are.
cd "$directory" || exit
server=

# What the server has started itself and is still there: the processes of a PostgreSQL, each in a group of its own.
children() {
  sed -n "s/^\([0-9]*\) (.*) [^XZ] $server .*/\1/p" /proc/[0-9]*/stat 2>/dev/null
}

# How a process is, where the first argument has its letter: it may be gone by now.
is() {
  grep -q ") [$1] " "/proc/$2/stat" 2>/dev/null
}

end() {
  [ -n "$server" ] || return 0
  # Once it stands still it starts no further process. The kernel lets it go on when the test process ends, and with it
  # the last of their group who has a parent outside.
  kill -STOP "$server"
  while is RSDI "$server"; do
    sleep 0.01
    kill -STOP "$server"
  done
  children=$(children)
  # The list is of numbers.
  # shellcheck disable=SC2086
  kill -KILL $children "$server"
  wait "$server"
  for child in $children; do
    while is RSDIT "$child"; do sleep 0.01; done
  done
  server=
} 2>/dev/null

# The segment of shared memory by which a PostgreSQL knows that it runs: it outlives everybody but who removes it.
forget_shared_memory() {
  segment=$(sed -n '7s/.* //p' data/postmaster.pid)
  [ -z "$segment" ] || ipcrm -m "$segment"
} 2>/dev/null

while read -r word; do
  case $word in
  start)
    "$@" </dev/null >>"$directory/log" 2>&1 &
    server=$!
    echo "$server"
    ;;
  end) end && echo ended ;;
  STOP | CONT)
    # shellcheck disable=SC2046
    kill "-$word" "$server" $(children) 2>/dev/null
    echo "$word"
    ;;
  esac
done
end
forget_shared_memory
cd / && rm -rf "$directory"
