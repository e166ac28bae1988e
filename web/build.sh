#!/usr/bin/env bash
# build.sh MODULES OUT - bundle the dashboard into OUT: dashboard.js, dashboard.css, index.html, dashboard.svg.
# dashboard.meta.json tells what went into it (scripts/release/make-sbom).
set -euo pipefail
web=$(cd "$(dirname "$0")" && pwd)
modules=$(realpath "$1")
out=$(realpath -m "$2")
case $(uname -m) in aarch64) machine=arm64 ;; *) machine=x64 ;; esac
esbuild=$modules/@esbuild/linux-$machine/bin/esbuild
mkdir -p "$out"
cat "$modules/uplot/dist/uPlot.min.css" "$web/style.css" >"$out/all.css"
NODE_PATH=$modules "$esbuild" "$web/src/main.jsx" --bundle --minify --target=es2022 --format=iife \
    --jsx=automatic --jsx-import-source=preact --legal-comments=none --log-level=warning --metafile="$out/dashboard.meta.json" \
    --outfile="$out/dashboard.js"
"$esbuild" "$out/all.css" --minify --log-level=warning --outfile="$out/dashboard.css"
rm -f "$out/all.css"
cp "$web/index.html" "$web/dashboard.svg" "$out/"
