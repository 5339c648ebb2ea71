package audit

import (
	"encoding/json"
	"strconv"
	"strings"
)

// sameJSON compares two values read by strictJSON. Types never mix ("true" is
// not true, null is not absent); numbers compare by value, exactly, whatever
// their spelling; object members compare without order.
func sameJSON(a, b any) bool {
	switch x := a.(type) {
	case nil:
		return b == nil
	case json.Number:
		y, ok := b.(json.Number)
		return ok && sameNumber(x.String(), y.String())
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !sameJSON(x[i], y[i]) {
				return false
			}
		}
		return true
	case *object:
		y, ok := b.(*object)
		if !ok || len(x.members) != len(y.members) {
			return false
		}
		for name, v := range x.members {
			w, ok := y.members[name]
			if !ok || !sameJSON(v, w) {
				return false
			}
		}
		return true
	}
	return a == b // string, bool
}

// sameNumber compares decimal texts without a float in between, so that 1e400
// and 2^53+1 are themselves, and without building the number, so that
// 1e999999999 costs nothing.
func sameNumber(a, b string) bool {
	na, da, ea := decimal(a)
	nb, db, eb := decimal(b)
	return na == nb && da == db && ea == eb
}

// decimal splits a JSON number into sign, digits without outer zeros, and the
// power of ten of the last digit. Zero is ("", "", 0), -0 included.
func decimal(s string) (neg bool, digits string, exp int64) {
	s, neg = strings.CutPrefix(s, "-")
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exp, _ = strconv.ParseInt(s[i+1:], 10, 64)
		s = s[:i]
	}
	whole, frac, _ := strings.Cut(s, ".")
	exp -= int64(len(frac))
	digits = strings.TrimLeft(whole+frac, "0")
	short := strings.TrimRight(digits, "0")
	exp += int64(len(digits) - len(short))
	if short == "" {
		return false, "", 0
	}
	return neg, short, exp
}

// rarity is how long a value must be to be told from a chance one: a text in bytes,
// a number in digits, a list in items.
type rarity struct{ letters, digits, items int }

// distinctive reports whether a value could hardly be right by chance: it is how
// a foreign fact is told from a wrong one. An object is as rare as its rarest member.
func distinctive(v any, least rarity) bool {
	switch x := v.(type) {
	case string:
		return len(x) >= least.letters
	case json.Number:
		_, d, _ := decimal(x.String())
		return len(d) >= least.digits
	case []any:
		return len(x) >= least.items
	case *object:
		for _, m := range x.members {
			if distinctive(m, least) {
				return true
			}
		}
	}
	return false
}
