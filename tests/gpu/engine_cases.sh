# Sourced by the scripts that run an engine: `here`, `launch`, `out`, `cases` and `failed` are theirs.

# case_of NAME EXPECTED... -- [OPTION...] -- COMMAND...: a bundle, and what check_engines.py has to find in it.
case_of() {
  local name=$1 expected=()
  shift
  case ",$cases," in *",$name,"*) ;; *) return 0 ;; esac
  while [ "$1" != -- ]; do expected+=("$1"); shift; done
  shift
  local began=$SECONDS
  timeout -k 10 "${LIMIT:-200}" "$launch" run --light --run-dir "$out/$name" "$@" >"$out/$name.log" 2>&1
  echo "== $name: status $? after $((SECONDS - began)) s"
  python3 "$here/check_engines.py" "$out/$name" "$out/$name.log" "${expected[@]}" || failed=1
}
