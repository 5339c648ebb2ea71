package engine

import (
	"encoding/base64"
	"encoding/binary"
	"math"
)

const maxInt32 = math.MaxInt32

// CommandKind names a line that a client writes.
type CommandKind uint8

// Commands. CmdUnsupported is a verb of the native engine that this project does
// not drive; an engine of ours answers it with an ERR line.
const (
	CmdNone        CommandKind = iota
	CmdGen                     // GEN, GENI
	CmdStop                    // STOP: exactly this line
	CmdQuit                    // QUIT
	CmdMaskFree                // MF [cut=ids]: answer to MQ, anything goes
	CmdMaskAllow               // MK base64: answer to MQ, only these ids
	CmdUnsupported             // VRAM, SAVE, RESTORE, BGEN, BGENI, BSTOP, BYIELD, YIELD
)

// Command is one parsed line. Name is the verb as it stood.
type Command struct {
	Kind CommandKind
	Name string
	Gen  Gen
	Mask Mask
}

// Mask says which tokens the next window may produce.
type Mask struct {
	Cut   []int32  // MF: the accepted run ends at the first of these
	Words []uint32 // MK: bit v%32 of word v/32 allows token v
}

// Allows tells whether a mask of MK lets a token pass; ids beyond it do not.
func (m *Mask) Allows(id int32) bool {
	w := int(id) >> 5
	return id >= 0 && w < len(m.Words) && m.Words[w]>>(uint(id)&31)&1 == 1
}

// Free tells whether the mask is an MF: nothing is forbidden.
func (m *Mask) Free() bool { return len(m.Words) == 0 }

// Append writes the mask as the MF or MK line that answers an MQ, LF included.
func (m *Mask) Append(dst []byte) []byte {
	if !m.Free() {
		raw := make([]byte, 0, 4*len(m.Words))
		for _, w := range m.Words {
			raw = binary.LittleEndian.AppendUint32(raw, w)
		}
		dst = append(dst, "MK "...)
		return append(base64.StdEncoding.AppendEncode(dst, raw), '\n')
	}
	dst = append(dst, "MF"...)
	if len(m.Cut) > 0 {
		dst = appendIDs(append(dst, " cut="...), m.Cut)
	}
	return append(dst, '\n')
}

// Append writes the command as one line, LF included. An unsupported one is its
// verb alone.
func (c *Command) Append(dst []byte) []byte {
	switch c.Kind {
	case CmdGen:
		return c.Gen.Append(dst)
	case CmdStop:
		return append(dst, "STOP\n"...)
	case CmdQuit:
		return append(dst, "QUIT\n"...)
	case CmdMaskFree, CmdMaskAllow:
		return c.Mask.Append(dst)
	}
	return append(append(dst, c.Name...), '\n')
}

// ParseCommand reads one line from a client into c, reusing its slices. The
// error is a *SyntaxError; an engine prints it as "ERR bad request: …".
func ParseCommand(line []byte, c *Command) error {
	line = trimEOL(line)
	verb, rest := word(line)
	c.Kind, c.Name = CmdNone, ""
	switch string(verb) {
	case "GEN", "GENI":
		c.Name = string(verb)
		if err := parseGen(c.Name, rest, &c.Gen); err != nil {
			return err
		}
		c.Kind = CmdGen
		return nil
	case "STOP":
		// With anything around it the line is queued like any other and fails.
		if string(line) == "STOP" {
			c.Kind, c.Name = CmdStop, "STOP"
			return nil
		}
	case "QUIT":
		c.Kind, c.Name = CmdQuit, "QUIT"
		return nil
	case "MF":
		c.Name = "MF"
		return c.parseFree(rest)
	case "MK":
		c.Name = "MK"
		return c.parseAllow(rest)
	case "VRAM", "SAVE", "RESTORE", "BGEN", "BGENI", "BSTOP", "BYIELD", "YIELD":
		c.Kind, c.Name = CmdUnsupported, string(verb)
		return nil
	}
	if len(verb) > 32 {
		verb = verb[:32]
	}
	return syntax(string(verb), "verb", line, "GEN, GENI, STOP, QUIT, MF or MK")
}

func (c *Command) parseFree(rest []byte) error {
	c.Mask = Mask{Cut: c.Mask.Cut[:0]}
	w, rest := word(rest)
	if len(w) > 0 {
		const key = "cut="
		if len(w) < len(key) || string(w[:len(key)]) != key {
			return syntax("MF", "cut", w, "cut= and ids, or nothing")
		}
		ids, bad, ok := parseIDs(c.Mask.Cut, w[len(key):])
		if c.Mask.Cut = ids; !ok {
			return syntax("MF", "cut", bad, "decimal token ids joined by commas")
		}
	}
	if w, _ = word(rest); len(w) > 0 {
		return syntax("MF", "end", w, "nothing after cut")
	}
	c.Kind = CmdMaskFree
	return nil
}

func (c *Command) parseAllow(rest []byte) error {
	c.Mask = Mask{Words: c.Mask.Words[:0]}
	w, rest := word(rest)
	raw, err := base64.StdEncoding.AppendDecode(nil, w)
	if err != nil || len(raw) == 0 || len(raw)%4 != 0 {
		return syntax("MK", "mask", w, "base64 of one or more little-endian 32-bit words")
	}
	for ; len(raw) > 0; raw = raw[4:] {
		c.Mask.Words = append(c.Mask.Words, binary.LittleEndian.Uint32(raw))
	}
	if w, _ = word(rest); len(w) > 0 {
		return syntax("MK", "end", w, "nothing after the mask")
	}
	c.Kind = CmdMaskAllow
	return nil
}
