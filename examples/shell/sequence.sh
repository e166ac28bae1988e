#!/usr/bin/env bash
# sequence.sh STORE NAME [COUNT] - numbers for files, invoices or machines: each is given once, whoever asks, whatever crashes.
#
#     ./sequence.sh numbers.db invoice            # 1
#     ./sequence.sh numbers.db invoice 10         # 2..11
#
# 7 (nobody knows) is met by taking others: what may have been given is spent. A number that must not be missed is taken in the transaction
# that writes its row (examples/c/sequence.c).
set -euo pipefail
. "$(dirname "$0")/again.sh"
again "${TIDEMARK:-tidemark}" sequence next "$2" --count "${3:-1}" --store "$1"
