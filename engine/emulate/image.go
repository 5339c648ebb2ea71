package emulate

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"os"

	"interlude/engine/emulate/model"
)

// An image file is a row of records: five little-endian int32 (magic, n, nx, ny,
// n_embd), then n × n_embd float32 (engine-protocol §1.5). n is the number of
// image tokens in the prompt.
const (
	imageMagic  = 0x31455653
	imageHeader = 20
	imageEmbd   = 64 // of the fake encoder
)

// imageTokens checks the records and returns the n of all of them together.
func imageTokens(data []byte) (int, error) {
	total := 0
	for i := 1; len(data) > 0; i++ {
		if len(data) < imageHeader {
			return 0, fmt.Errorf("record %d is cut in its header", i)
		}
		var f [5]int64
		for k := range f {
			f[k] = int64(int32(binary.LittleEndian.Uint32(data[4*k:])))
		}
		if f[0] != imageMagic {
			return 0, fmt.Errorf("record %d begins with %#x, want %#x", i, f[0], imageMagic)
		}
		if f[1] < 1 || f[2] < 1 || f[3] < 1 || f[4] < 1 || f[1] > 1<<20 || f[4] > 1<<20 {
			return 0, fmt.Errorf("record %d has n %d, nx %d, ny %d, n_embd %d: want numbers from 1", i, f[1], f[2], f[3], f[4])
		}
		size := imageHeader + 4*f[1]*f[4]
		if size > int64(len(data)) {
			return 0, fmt.Errorf("record %d wants %d bytes, %d are there", i, size, len(data))
		}
		total += int(f[1])
		data = data[size:]
	}
	if total == 0 {
		return 0, fmt.Errorf("no record")
	}
	return total, nil
}

// readImage checks an image file against the prompt and returns its digest.
func readImage(path string, ids []int32) (uint64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := imageTokens(data)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	pads := 0
	for _, id := range ids {
		if id == model.ImagePad {
			pads++
		}
	}
	if pads != n {
		return 0, fmt.Errorf("%s holds %d image tokens, the prompt %d", path, n, pads)
	}
	h := fnv.New64a()
	h.Write(data)
	return h.Sum64() | 1, nil // 0 is no image
}

// encode is the fake image encoder: one record of 16 to 64 tokens whose numbers
// depend on nothing but the bytes of the image.
func encode(image, out string) error {
	data, err := os.ReadFile(image)
	if err != nil {
		return fmt.Errorf("encode image: %w", err)
	}
	if len(data) == 0 {
		return fmt.Errorf("encode image: %s is empty", image)
	}
	h := fnv.New64a()
	h.Write(data)
	seed := h.Sum64()
	nx, ny := 4+int(seed%5), 4+int(seed>>8%5)
	b := make([]byte, 0, imageHeader+4*nx*ny*imageEmbd)
	for _, v := range [...]int{imageMagic, nx * ny, nx, ny, imageEmbd} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	for range nx * ny * imageEmbd {
		seed = seed*6364136223846793005 + 1442695040888963407
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(seed>>40)/float32(1<<24)-0.5))
	}
	if err := os.WriteFile(out, b, 0o600); err != nil {
		return fmt.Errorf("encode image: %w", err)
	}
	return nil
}
