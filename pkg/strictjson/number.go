package strictjson

import (
	"math"
	"strconv"
	"strings"
)

// exactLimit is 2^53: up to here every integer has its own 64-bit float.
const exactLimit = 1 << 53

// numberFault returns what would have been accepted instead of the JSON number literal, or "" when
// the literal is fine.
//
// RFC 8785 prints numbers as 64-bit floats, so two integers beyond 2^53 can share one canonical
// form. Refused are such integers, and likewise floats that the canonical form would print as one
// (those below 1e21): a canonical form is therefore always accepted again. 2^53 itself is accepted
// as an integer literal only, because 9007199254740993.0 is the same float.
func numberFault(literal string) string {
	const integers = "an integer of at most 2^53 (9007199254740992); write bigger ones as a string"
	if !strings.ContainsAny(literal, ".eE") {
		digits := strings.TrimPrefix(literal, "-")
		limit := strconv.Itoa(exactLimit)
		if len(digits) > len(limit) || len(digits) == len(limit) && digits > limit {
			return integers
		}
		return ""
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return "a number that fits a 64-bit float"
	}
	if abs := math.Abs(f); abs >= exactLimit && abs < 1e21 {
		return integers
	}
	return ""
}
