package serve

import (
	"context"
	"errors"
	"net/http"
	"time"

	"interlude/engine"
	"interlude/sched/loop"
)

// serveHealth tells live (it answers), ready, loading and draining apart, and
// carries the engine's progress: a counter that stands still while requests run
// is an engine that hangs. It asks nobody, so it is answered under any load.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	h := s.loop.Health()
	if !s.authorised(r) {
		h.Err = "" // the engine's last words are no news for everybody
	}
	status, word := http.StatusOK, "ok"
	switch h.State {
	case loop.StateLoading, loop.StateDraining:
		status, word = http.StatusServiceUnavailable, string(h.State)
		w.Header().Set("Retry-After", "1")
	case loop.StateDown:
		word = "dead" // the next request restarts it: the server can be asked
	}
	writeJSON(w, status, struct {
		Status   string  `json:"status"`
		Service  string  `json:"service"`
		Model    string  `json:"model"`
		Instance string  `json:"instance,omitempty"`
		Context  int     `json:"max_context"`
		Images   bool    `json:"images"`
		Key      bool    `json:"api_key"`
		Loaded   bool    `json:"loaded"`
		State    string  `json:"state"`
		Progress uint64  `json:"progress"`
		Silent   float64 `json:"silent_s"`
		Error    string  `json:"error,omitempty"`
	}{word, "strata", s.cfg.Model, s.instance, s.context(h), s.cfg.Vision != nil, len(s.keys) > 0,
		h.State == loop.StateReady, string(h.State), h.Progress, h.Silent.Seconds(), h.Err})
}

// context is the engine's own size, or what its arguments promise.
func (s *Server) context(h loop.Health) int {
	if h.Context > 0 {
		return h.Context
	}
	return s.cfg.Context
}

// serveModels lists the one model, under its name; asking never loads it.
func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	h := s.loop.Health()
	type value struct {
		Value string `json:"value"`
	}
	type meta struct {
		Context int `json:"n_ctx"`
	}
	type architecture struct {
		Input  []string `json:"input_modalities"`
		Output []string `json:"output_modalities"`
	}
	type model struct {
		ID           string       `json:"id"`
		Object       string       `json:"object"`
		Created      int64        `json:"created"`
		OwnedBy      string       `json:"owned_by"`
		Status       value        `json:"status"`
		Meta         meta         `json:"meta"`
		Architecture architecture `json:"architecture"`
		Aliases      []string     `json:"aliases"`
	}
	m := model{s.cfg.Model, "model", s.started.Unix(), "strata", value{"unloaded"}, meta{s.context(h)},
		architecture{[]string{"text"}, []string{"text"}}, append([]string{}, s.cfg.Aliases...)}
	if h.State == loop.StateReady {
		m.Status.Value = "loaded"
	}
	if s.cfg.Vision != nil {
		m.Architecture.Input = append(m.Architecture.Input, "image")
	}
	writeJSON(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{m}})
}

// serveStatus is the server's own account of itself, for people, for the harness
// and for clients that do not stream.
func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	st, err := s.loop.Status(ctx)
	if err != nil {
		s.refusal(err).write(w)
		return
	}
	type request struct {
		ID       string `json:"id"`
		State    string `json:"state"`
		Output   int    `json:"tokens_out"`
		Parks    int    `json:"parks"`
		Priority int    `json:"priority"`
		Place    int    `json:"place,omitempty"`
	}
	type solo struct {
		Enabled  bool    `json:"enabled"`
		Policy   string  `json:"policy"`
		Quantum  float64 `json:"quantum_s"`
		Aging    float64 `json:"aging_s"`
		Queued   int     `json:"queued"`
		Running  int     `json:"running"`
		Parked   int     `json:"parked"`
		Scale    float64 `json:"time_scale,omitempty"`
		Journal  bool    `json:"journal"`
		Complete bool    `json:"journal_complete"`
	}
	type engineStatus struct {
		Info    engine.Info `json:"info"`
		Pid     int         `json:"pid"`
		Context int         `json:"max_context"`
		Epoch   int         `json:"starts"`
		Silent  float64     `json:"silent_s"`
		Error   string      `json:"error,omitempty"`
	}
	if st.Info == nil {
		st.Info = engine.Info{}
	}
	n := st.Counters
	out := struct {
		Service  string            `json:"service"`
		Model    string            `json:"model"`
		Instance string            `json:"instance"`
		Loaded   bool              `json:"loaded"`
		State    string            `json:"state"`
		Uptime   float64           `json:"uptime_s"`
		Progress uint64            `json:"progress"`
		Engine   engineStatus      `json:"engine"`
		Solo     solo              `json:"solo"`
		Requests []request         `json:"requests"`
		Counters map[string]uint64 `json:"counters"`
	}{"strata", s.cfg.Model, s.instance, st.State == loop.StateReady, string(st.State), time.Since(s.started).Seconds(), st.Progress,
		engineStatus{st.Info, st.Pid, s.context(st.Health), st.Epoch, st.Silent.Seconds(), st.Err},
		solo{s.cfg.Solo, s.cfg.Machine.Policy, s.cfg.Machine.Quantum.Seconds(), s.cfg.Machine.Aging.Seconds(), st.Waiting, st.Running, st.Parked,
			s.cfg.Machine.TimeScale, s.cfg.Journal != "", !st.Truncated},
		[]request{},
		map[string]uint64{"accepted": n.Accepted, "ended": n.Ended, "rejected": n.Rejected, "preemptions": n.Preemptions, "resumes": n.Resumes,
			"starvation_grants": n.Starvation, "drained_tokens": n.Drained, "lost_prefix_tokens": n.LostPrefix, "reread_tokens": n.Reread,
			"slices": n.Slices, "deaths": n.Deaths, "loads": n.Loads}}
	for _, q := range st.Requests {
		out.Requests = append(out.Requests, request{q.Label, q.State.String(), q.Output, q.Parks, q.Priority, q.Place})
	}
	writeJSON(w, http.StatusOK, out)
}

// maintain runs one maintenance, serialised by the loop around whatever lives.
func (s *Server) maintain(do func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := do(r.Context())
		switch {
		case errors.Is(err, loop.ErrBusy):
			(&fault{status: 409, kind: kindConflict, code: "model_busy", message: "requests are queued, running or parked, or another maintenance runs; try again later", retryAfter: time.Second}).write(w)
		case err != nil:
			s.refusal(err).write(w)
		default:
			h := s.loop.Health()
			writeJSON(w, http.StatusOK, map[string]any{"status": "ok", "state": h.State, "loaded": h.State == loop.StateReady})
		}
	}
}
