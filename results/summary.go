package results

// Verdicts of a run, and of one metric.
const (
	VerdictBroken       = "BROKEN"
	VerdictInvalid      = "INVALID"
	VerdictWorse        = "WORSE"
	VerdictInconclusive = "INCONCLUSIVE"
	VerdictBetter       = "BETTER"
	VerdictNoDifference = "NO DIFFERENCE" // the report adds WITHIN ±m
	VerdictPass         = "PASS"          // of a run with one arm
)

// Summary is summary.json: the first screen for machines. A key is absent where
// its value is unknown; counts of what was asked for are always there, also 0.
// Times are seconds as measured, ratios are fractions of 1.
type Summary struct {
	Schema    int              `json:"schema"`
	Run       string           `json:"run"`
	Kind      string           `json:"kind"`
	Verdict   string           `json:"verdict"`
	Reasons   []string         `json:"reasons"`
	Emulated  string           `json:"emulated,omitempty"` // profile of the stand-in engine
	Speed     float64          `json:"speed"`
	Pairs     int              `json:"pairs"` // complete ones
	Arms      map[string]*Arm  `json:"arms"`  // off, on, and controls
	Deltas    map[string]Delta `json:"deltas,omitempty"`
	Identical *Equal           `json:"identical_long_answers,omitempty"`
	Balanced  *bool            `json:"ledger_balanced,omitempty"`
	Delay     *AddedDelay      `json:"client_added_delay_s,omitempty"`
	Slopes    map[string]Slope `json:"slopes,omitempty"` // soak
	Cells     []Cell           `json:"cells,omitempty"`  // inject
}

// Arm is what one arm did.
type Arm struct {
	Slots        int      `json:"slots"`
	Requests     Requests `json:"requests"`
	TTFTShort    *Dist    `json:"ttft_short_s,omitempty"` // class probe
	TTFTLong     *Dist    `json:"ttft_long_s,omitempty"`  // class long
	LongE2E      *Dist    `json:"long_e2e_s,omitempty"`
	LongestPause *float64 `json:"longest_pause_s,omitempty"`
	ITL          *Dist    `json:"itl_s,omitempty"`        // gaps of class long
	OutputTokS   *float64 `json:"output_tok_s,omitempty"` // median of the slots
	TotalTokS    *float64 `json:"total_tok_s,omitempty"`
	Block        *float64 `json:"block_s,omitempty"`
	Audits       *Exact   `json:"audits,omitempty"`
	ShortAnswers *Right   `json:"short_answers,omitempty"`
	StrictJSON   *Passed  `json:"strict_json,omitempty"`
	RoundTrips   *int     `json:"tool_round_trips,omitempty"` // right ones
	Parks        *int     `json:"parks,omitempty"`
	Switch       *float64 `json:"switch_s,omitempty"`
	LostPrefix   *int     `json:"lost_prefix_tokens,omitempty"`
	Reread       *int     `json:"reread_tokens,omitempty"`
	Drafts       *Drafts  `json:"drafts,omitempty"`
}

// Requests counts measured requests: planned = sent + not_sent, and sent is the
// sum of the others.
type Requests struct {
	Planned        int `json:"planned"`
	Sent           int `json:"sent"`
	Completed      int `json:"completed"`
	Cancelled      int `json:"cancelled"`
	Refused        int `json:"refused"`
	Truncated      int `json:"truncated"`
	StreamError    int `json:"stream_error"`
	TransportError int `json:"transport_error"`
	Timeout        int `json:"timeout"`
	CutOff         int `json:"cut_off"`
	NotSent        int `json:"not_sent"`
}

// Dist is a distribution. A percentile that falls on a failed request is absent.
type Dist struct {
	N      int      `json:"n"`
	Median *float64 `json:"median,omitempty"`
	P95    *float64 `json:"p95,omitempty"`
	Max    *float64 `json:"max,omitempty"`
}

// Exact counts audits whose every field is right.
type Exact struct {
	Exact int `json:"exact"`
	Total int `json:"total"`
}

// Right counts right answers.
type Right struct {
	Right int `json:"right"`
	Total int `json:"total"`
}

// Passed counts answers that keep the strict JSON contract.
type Passed struct {
	Passed int `json:"passed"`
	Total  int `json:"total"`
}

// Equal counts long answers that are byte-equal between the arms of a pair.
type Equal struct {
	Equal int `json:"equal"`
	Total int `json:"total"`
}

// Drafts are the engine's speculative tokens.
type Drafts struct {
	Offered  int `json:"offered"`
	Accepted int `json:"accepted"`
}

// Delta is on/off as a ratio with its 95 % interval. Values that cannot be known
// are absent.
type Delta struct {
	Ratio     *float64 `json:"ratio,omitempty"`
	Low       *float64 `json:"low,omitempty"`
	High      *float64 `json:"high,omitempty"`
	PSignFlip *float64 `json:"p_sign_flip,omitempty"`
	N         int      `json:"n"`
}

// AddedDelay is the client's own delay.
type AddedDelay struct {
	P99 float64 `json:"p99"`
}

// Slope is a drift over a soak with its 95 % interval and its budget.
type Slope struct {
	PerHour *float64 `json:"per_hour,omitempty"`
	Low     *float64 `json:"low,omitempty"`
	High    *float64 `json:"high,omitempty"`
	Budget  *float64 `json:"budget,omitempty"`
}

// Cell is one way of ending the engine, at one moment, under one API: the worst of
// its repetitions, and their medians. Pass is absent where NotRun says why.
type Cell struct {
	How         string   `json:"how"`
	When        string   `json:"when"`
	API         string   `json:"api"`
	Told        *float64 `json:"told_s,omitempty"`         // until the last struck client knew
	ServedAgain *float64 `json:"served_again_s,omitempty"` // until a new request had its answer
	Hung        int      `json:"hung"`
	Silent      int      `json:"silent"` // struck, and ended as a success
	Orphans     int      `json:"orphans"`
	Pass        *bool    `json:"pass,omitempty"`
	NotRun      string   `json:"not_run,omitempty"`

	By                string         `json:"by,omitempty"`      // BySignal or ByRelay; "": no relay stood before the engine
	Limit             *float64       `json:"limit_s,omitempty"` // for Told
	Repeats           int            `json:"repeats,omitempty"`
	ToldMedian        *float64       `json:"told_median_s,omitempty"`
	ServedAgainMedian *float64       `json:"served_again_median_s,omitempty"`
	Blast             map[string]int `json:"blast,omitempty"` // outcome of every other request, by what it was doing: "queued completed"
	Evidence          string         `json:"evidence,omitempty"`
	Why               string         `json:"why,omitempty"` // of a failure
}

// What a cell was struck by, where the relay stands between server and engine.
const (
	BySignal = "signal" // sent to the engine itself
	ByRelay  = "relay"
)

// Tally counts cells by what came of them.
func Tally(cells []Cell) (passed, failed, notRun int) {
	for _, c := range cells {
		switch {
		case c.Pass == nil:
			notRun++
		case *c.Pass:
			passed++
		default:
			failed++
		}
	}
	return passed, failed, notRun
}
