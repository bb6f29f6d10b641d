# Ends a command whose scheduler was killed.
#
# $1: for how many seconds the command may go on after TERM.
# Standard input: the id of its process group, in a line; another line, when it was told to stop. The end of the input
# says that the scheduler has gone: one that lives kills this when nothing is left of the group.

trap '' TERM INT HUP QUIT
read -r group || exit 0
told=
while read -r _; do told=yes; done
if [ -z "$told" ]; then
  kill -s TERM -- "-$group" 2>/dev/null || exit 0
  sleep "$1" &
  while kill -s 0 "$!" 2>/dev/null && kill -s 0 -- "-$group" 2>/dev/null; do sleep 0.1 || sleep 1; done
  kill -s KILL "$!" 2>/dev/null
fi
kill -s KILL -- "-$group" 2>/dev/null
