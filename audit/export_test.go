package audit

import "interlude/results"

// What the tests of package audit_test reach.
var (
	TPoint        = tPoint
	StrictJSON    = strictJSON
	SameJSON      = sameJSON
	SameNumber    = sameNumber
	RecheckData   = recheckData
	Slip          = slip
	ReadEngineLog = readEngineLog
	Recount       = recount
	JudgeOne      = judge
	PlacesOf      = placesOf
	Demanding     = demanding
)

// WeighPlaces is the finding about the parks of an hour.
func WeighPlaces(counts map[string]int) results.Finding {
	e := &evidence{}
	e.weighPlaces(counts)
	return e.Findings[0]
}

// StoodStill is the longest pause by a park among measured records.
func StoodStill(recs []*results.Record) float64 { return stoodStill(recs) }

// Fewer is the p of a hits of n against b hits of m.
func Fewer(a, n, b, m int) float64 { return fewer(rate{a, n}, rate{b, m}) }
