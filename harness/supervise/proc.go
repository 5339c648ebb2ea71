package supervise

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"

	psnet "github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// Proc is one process: a pid means nothing without its start time.
type Proc struct {
	Pid   int
	Start int64 // Unix ms
	Name  string
}

func (p Proc) String() string { return fmt.Sprintf("%s (pid %d)", p.Name, p.Pid) }

// find returns the live process that p was, or nil.
func (p Proc) find() *process.Process {
	live, err := process.NewProcess(int32(p.Pid))
	if err != nil {
		return nil
	}
	start, err := live.CreateTime()
	if err != nil || start < p.Start-startTolerance || start > p.Start+startTolerance {
		return nil
	}
	return live
}

// Self is the present process.
func Self() Proc {
	p := Proc{Pid: os.Getpid()}
	if live, err := process.NewProcess(int32(p.Pid)); err == nil {
		p.Start, _ = live.CreateTime()
		p.Name, _ = live.Name()
	}
	return p
}

// Running tells whether the process has not ended.
func (p Proc) Running() bool { return p.running() }

// running tells whether the process has not ended. One that ended and was not
// waited for by its parent has ended.
func (p Proc) running() bool {
	live := p.find()
	return live != nil && !zombie(live)
}

func (p Proc) kill() {
	if live := p.find(); live != nil {
		_ = live.Kill() // it may have ended meanwhile
	}
}

// record notes a pid of our tree under its start time.
func (c *Child) record(pid int) {
	live, err := process.NewProcess(int32(pid))
	if err != nil {
		return // it ended meanwhile
	}
	start, err := live.CreateTime()
	if err != nil {
		return
	}
	name, _ := live.Name()
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.seen {
		if p.Pid == pid && p.Start-startTolerance <= start && start <= p.Start+startTolerance {
			return
		}
	}
	c.seen[Proc{Pid: pid, Start: start, Name: name}] = true
}

// recorded returns every process ever seen in the tree, the child included.
func (c *Child) recorded() []Proc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.seen), func(a, b Proc) int { return a.Pid - b.Pid })
}

// Descendants returns what runs below the child now, without the child, and
// records it. What lost its parent is still found when it was seen before.
func (c *Child) Descendants() ([]Proc, error) {
	var roots []int
	for _, p := range c.recorded() {
		if p.running() {
			roots = append(roots, p.Pid)
		}
	}
	below, err := below(roots)
	if err != nil {
		return nil, err
	}
	for _, pid := range below {
		c.record(pid)
	}
	var out []Proc
	for _, p := range c.recorded() {
		if p.Pid != c.Pid() && p.running() {
			out = append(out, p)
		}
	}
	return out, nil
}

// below returns the pids whose chain of parents meets one of roots, without roots.
func below(roots []int) ([]int, error) {
	pids, err := process.Pids()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	children := map[int][]int{}
	for _, pid := range pids {
		p := process.Process{Pid: pid} // NewProcess would look each pid up once more
		if parent, err := p.Ppid(); err == nil && int(pid) != int(parent) {
			children[int(parent)] = append(children[int(parent)], int(pid))
		}
	}
	return walk(roots, children, func(pid int) (int64, error) {
		p := process.Process{Pid: int32(pid)}
		return p.CreateTime()
	}), nil
}

// walk follows the children of roots, whose start times, in Unix ms, start tells.
// Windows never forgets the number of a parent that has ended, and gives it away
// again: who started before the one who bears that number now is not its child.
func walk(roots []int, children map[int][]int, start func(pid int) (int64, error)) (out []int) {
	met := map[int]bool{}
	for _, r := range roots {
		met[r] = true
	}
	for queue := slices.Clone(roots); len(queue) > 0; queue = queue[1:] {
		began, err := start(queue[0])
		for _, pid := range children[queue[0]] {
			own, gone := start(pid)
			if met[pid] || err == nil && (gone != nil || own < began-startTolerance) {
				continue
			}
			met[pid] = true
			out = append(out, pid)
			queue = append(queue, pid)
		}
	}
	return out
}

// Owns tells whether the process that listens on a TCP port is root or runs below
// it. A server that was there before us answers as well as ours would; only this
// tells them apart.
func Owns(port, root int) (bool, error) {
	tree, err := below([]int{root})
	if err != nil {
		return false, err
	}
	for _, pid := range append(tree, root) {
		conns, err := psnet.ConnectionsPid("tcp", int32(pid))
		if err != nil {
			continue // it ended meanwhile, or hides its sockets: then it is not proved ours
		}
		for _, c := range conns {
			if c.Status == "LISTEN" && int(c.Laddr.Port) == port {
				return true, nil
			}
		}
	}
	return false, nil
}

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on now. Who takes it
// must still prove with Owns that it is theirs.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
