#!/usr/bin/env bash
# Writes the pages of the sample bundles again, from the trace files that they contain.
#   docs/sample/regenerate.sh LAUNCHER             LAUNCHER: stage2-launch
#   docs/sample/regenerate.sh LAUNCHER --check     changes nothing; exit status 1: a page would change
#   docs/sample/regenerate.sh LAUNCHER --pictures  also takes the pictures of the documentation (needs Chromium)
set -euo pipefail
launcher=$(realpath "${1:?stage2-launch}") mode=${2:-}
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD work=$PWD
if [ "$mode" = --check ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
status=0
for traces in */collector; do
  bundle=$(dirname "$traces")
  [ "$work" = "$here" ] || cp -r "$bundle" "$work"
  "$launcher" -q report "$work/$bundle" >/dev/null
  # The files of a bundle are private (0600); these are not.
  chmod -R u=rwX,go=rX "$work/$bundle"
  [ "$work" = "$here" ] || diff -rq "$work/$bundle" "$bundle" || status=1
done
[ "$mode" = --pictures ] || exit "$status"

pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
# picture PAGE PNG WIDTH HEIGHT [HEADING]: the top of a page, or the part that begins with a heading.
picture() {
  cat >"$pages/frame.html" <<HTML
<body style="margin:0;overflow:hidden"><iframe id="page" src="file://$1"
  style="border:0;width:$3px;height:9000px;position:absolute;top:0;left:0"></iframe><script>
  page.onload = () => {
    const headings = [...page.contentDocument.querySelectorAll("h1,h2,h3")];
    const heading = headings.find((one) => one.textContent.startsWith("${5:-}"));
    const top = "${5:-}" ? heading.getBoundingClientRect().top - 20 : 0;
    page.style.top = \`\${-top}px\`;
  };
</script></body>
HTML
  chromium --headless --no-sandbox --hide-scrollbars --allow-file-access-from-files --virtual-time-budget=5000 \
    --force-device-scale-factor=1 --window-size="$3,$4" --screenshot="$here/$2" "file://$pages/frame.html" 2>/dev/null
}
picture "$here/vllm_sorting/report.html" report.png 1280 1400
"$launcher" -q diff vllm_sorting vllm_server --html "$pages/diff.html" >/dev/null
picture "$pages/diff.html" ../story-diff.png 1280 1145
picture "$here/vllm_sorting/report.html" ../story-host.png 1280 480 "What the host does while the GPU idles"
