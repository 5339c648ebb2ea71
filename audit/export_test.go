package audit

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
)
