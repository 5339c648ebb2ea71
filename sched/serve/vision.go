package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"interlude/harness/supervise"
)

// A GENI record: its magic, pad tokens, columns, rows and width, five
// little-endian int32, then pads × width float32 (engine-protocol §1.5).
const (
	recordMagic  = 0x31455653
	recordHeader = 20
	encodeTime   = 2 * time.Minute
)

// encodeImages runs the configured encoder on each image and puts the records,
// in order, into one file for GENI. The prompt gets as many pads as each record
// has tokens.
func (s *Server) encodeImages(ctx context.Context, c *call) *fault {
	if len(c.conv.pictures) == 0 {
		return nil
	}
	if s.cfg.Vision == nil {
		return invalid(c.conv.pictures[0].param, `images need an encoder: configure "vision"`)
	}
	// One encoder at a time, however many ask: it fills a card of its own, or the engine's.
	select {
	case s.encoder <- struct{}{}:
		defer func() { <-s.encoder }()
	case <-ctx.Done():
		return &fault{status: 503, kind: kindServer, code: "image_failed", message: "the client left before its images were encoded"}
	}
	ctx, cancel := context.WithTimeout(ctx, encodeTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "interlude-image-")
	if err != nil {
		return &fault{status: 500, kind: kindServer, code: "image_failed", message: err.Error()}
	}
	defer os.RemoveAll(dir)
	var records []byte
	for i, p := range c.conv.pictures {
		record, pads, err := s.cfg.Vision.encode(ctx, dir, p.data)
		if err != nil {
			s.log.Warn("encode an image", "err", err)
			return invalid(p.param, "the encoder could not read image %d", i+1)
		}
		records = append(records, record...)
		c.conv.Messages[p.message].Content[p.part].Pads = pads
	}
	f, err := os.CreateTemp("", "interlude-geni-*.bin")
	if err == nil {
		c.images = f.Name()
		_, err = f.Write(records)
		err = errors.Join(err, f.Close())
	}
	if err == nil && strings.ContainsAny(c.images, " \t") {
		err = fmt.Errorf("the path %s has a blank, which GENI cannot carry: set TMPDIR", c.images)
	}
	if err != nil {
		c.release()
		return &fault{status: 500, kind: kindServer, code: "image_failed", message: "the image records could not be written"}
	}
	return nil
}

// encode runs `argv… IN OUT` and checks what it wrote.
func (v *Vision) encode(ctx context.Context, dir string, image []byte) (record []byte, pads int, err error) {
	in, out := filepath.Join(dir, "image"), filepath.Join(dir, "records")
	if err := os.WriteFile(in, image, 0o600); err != nil {
		return nil, 0, err
	}
	child, err := supervise.Start(supervise.Spec{Argv: append(append([]string{}, v.Argv...), in, out)})
	if err != nil {
		return nil, 0, err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		return nil, 0, errors.Join(context.Cause(ctx), child.Kill())
	}
	if err := child.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %s", err, strings.Join(child.LastLines(5), " | "))
	}
	record, err = os.ReadFile(out)
	if err != nil {
		return nil, 0, err
	}
	pads, err = countPads(record)
	return record, pads, err
}

// countPads checks a run of records and sums their tokens.
func countPads(b []byte) (pads int, err error) {
	for rest := b; ; {
		if len(rest) < recordHeader || binary.LittleEndian.Uint32(rest) != recordMagic {
			return 0, fmt.Errorf("byte %d: no image record", len(b)-len(rest))
		}
		n, width := int(int32(binary.LittleEndian.Uint32(rest[4:]))), int(int32(binary.LittleEndian.Uint32(rest[16:])))
		if n < 1 || width < 1 || n > 1<<20 || width > 1<<20 || len(rest)-recordHeader < n*width*4 {
			return 0, fmt.Errorf("byte %d: a record of %d tokens by %d does not fit its file", len(b)-len(rest), n, width)
		}
		pads += n
		if rest = rest[recordHeader+n*width*4:]; len(rest) == 0 {
			return pads, nil
		}
	}
}
