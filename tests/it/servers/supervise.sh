# Starts, stops and ends one server, by the lines on its input. As the server's parent, it can send no signal to another
# process by mistake. At the end of its input, also by the end of the test process, it ends the server and removes its
# directory.
#
# $1: the directory; the rest: the command line of the server, which stays in the foreground.
trap '' HUP INT TERM
directory=$1
shift
# A server with another user may not be able to read the directory of the tests.
cd "$directory" || exit
server=

# The server's living children: the processes of a PostgreSQL, each in a group of its own.
children() {
  sed -n "s/^\([0-9]*\) (.*) [^XZ] $server .*/\1/p" /proc/[0-9]*/stat 2>/dev/null
}

# Returns whether the state of a process is one of the letters in the first argument. The process may be gone by now.
is() {
  grep -q ") [$1] " "/proc/$2/stat" 2>/dev/null
}

end() {
  [ -n "$server" ] || return 0
  # A stopped server starts no further process. The kernel continues it when the test process ends, and with that the last
  # process of their group with a parent outside.
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

# The segment of shared memory by which a PostgreSQL notices another one: it lasts until it is removed.
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
