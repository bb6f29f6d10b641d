# Starts, stops and ends one server, as the lines on its input say, and is its parent, so that no signal can reach
# another process. At the end of its input, which comes with the end of the test process too, the server is ended
# and its directory removed.
#
# $1: the directory; the rest: the command line of the server, which stays in the foreground.
trap '' HUP INT TERM
directory=$1
shift
server=

end() {
  [ -z "$server" ] || { kill -KILL "$server" && wait "$server"; } 2>/dev/null
  server=
}

while read -r word; do
  case $word in
  start)
    "$@" </dev/null >>"$directory/log" 2>&1 &
    server=$!
    echo "$server"
    ;;
  end) end && echo ended ;;
  STOP | CONT) kill "-$word" "$server" && echo "$word" ;;
  esac
done
end
rm -rf "$directory"
