package audit

// What the tests of package audit_test reach.
var (
	TPoint      = tPoint
	StrictJSON  = strictJSON
	SameNumber  = sameNumber
	RecheckData = recheckData
	Slip        = slip
)
