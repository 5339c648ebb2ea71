package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"interlude/results"
)

// Colours that stay apart for the colour-blind and, one light and one dark, in grey.
func armColour(arm string) color.Color {
	switch arm {
	case results.Off:
		return color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	case results.On:
		return color.RGBA{0x00, 0x5f, 0x96, 0xff}
	}
	return color.RGBA{0x66, 0x66, 0x66, 0xff}
}

// armGlyph is a request of an arm: a square with the flag off, a disc with it on, so
// that colour is never all that tells them apart.
func armGlyph(arm string, radius font.Length) draw.GlyphStyle {
	style := draw.GlyphStyle{Color: armColour(arm), Radius: radius, Shape: draw.CircleGlyph{}}
	switch arm {
	case results.On:
	case results.Off:
		style.Shape = draw.BoxGlyph{}
	default:
		style.Shape = draw.PyramidGlyph{}
	}
	return style
}

// pale is a colour two thirds of the way to white.
func pale(c color.Color) color.Color {
	r, g, b, _ := c.RGBA()
	light := func(v uint32) uint8 { return uint8((v>>8 + 2*0xff) / 3) }
	return color.RGBA{light(r), light(g), light(b), 0xff}
}

func grey(v uint8) color.Color { return color.RGBA{v, v, v, 0xff} }

// newPlot is an empty plot in a sans-serif face.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	for _, s := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		s.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size = 13
	p.Title.Padding = 8
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 11, 11
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = 10, 10
	p.Legend.TextStyle.Font.Size = 10
	return p
}

// svg draws p; the same plot gives the same bytes. said is what it shows, in words,
// for those who cannot see it.
func svg(p *plot.Plot, width, height font.Length, said string) ([]byte, error) {
	c := vgsvg.New(width, height)
	canvas := draw.New(c)
	canvas.FillPolygon(color.White, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
	p.Draw(draw.Crop(canvas, 6, -6, 4, -4))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw %q: %w", p.Title.Text, err)
	}
	var title, desc bytes.Buffer
	if err := errors.Join(xml.EscapeText(&title, []byte(p.Title.Text)), xml.EscapeText(&desc, []byte(said))); err != nil {
		return nil, fmt.Errorf("draw %q: %w", p.Title.Text, err)
	}
	told := fmt.Sprintf(" role=\"img\">\n<title>%s</title>\n<desc>%s</desc>\n<g ", title.String(), desc.String())
	out := bytes.Replace(b.Bytes(), []byte(">\n<g "), []byte(told), 1)
	// Where the font is not installed a viewer would fall back to a serif face.
	return bytes.ReplaceAll(out, []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), nil
}

// secondsTicks marks a logarithmic axis of seconds at 1, 2 and 5 of each decade, and
// a short one, on which fewer than two of them lie, more finely.
func secondsTicks(lo, hi float64) []plot.Tick {
	at := func(marks ...float64) (ticks []plot.Tick) {
		for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
			for _, m := range marks {
				if v := m * math.Pow(10, e); v >= lo*0.999 && v <= hi*1.001 {
					ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.3g s", v)})
				}
			}
		}
		return ticks
	}
	if ticks := at(1, 2, 5); len(ticks) > 1 {
		return ticks
	}
	return at(1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
}

// logSeconds makes the y axis logarithmic over the values, with room around. The
// axis carries no label: the library places it by the linear middle, far off on
// a logarithmic axis. The title says what is shown.
func logSeconds(p *plot.Plot, values []float64) {
	lo, hi := math.Inf(1), 0.0
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	p.Y.Scale = plot.LogScale{}
	p.Y.Min, p.Y.Max = lo/1.6, hi*1.6
	p.Y.Tick.Marker = plot.ConstantTicks(secondsTicks(p.Y.Min, p.Y.Max))
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = grey(0xe4)
	p.Add(grid)
}

// dot is one probe of one arm.
type dot struct {
	arm  string
	ttft float64 // s
}

// ttftPlot shows every probe's TTFT by arm, and each arm's median as a bar.
func ttftPlot(title, said string, dots []dot) ([]byte, error) {
	p := newPlot(title, "", "")
	var all []float64
	byArm := map[string][]float64{}
	for _, d := range dots {
		all = append(all, d.ttft)
		byArm[d.arm] = append(byArm[d.arm], d.ttft)
	}
	logSeconds(p, all)
	arms := slices.DeleteFunc([]string{results.Off, results.On}, func(arm string) bool { return len(byArm[arm]) == 0 })
	var ticks []plot.Tick
	for i, arm := range arms {
		values := byArm[arm]
		pts := make(plotter.XYs, len(values))
		for k, v := range values {
			pts[k] = plotter.XY{X: float64(i) + spread(k, len(values)), Y: v}
		}
		s, err := plotter.NewScatter(pts)
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = armGlyph(arm, 3.2)
		med := nearestRank(values, 0.5)
		bar, err := plotter.NewLine(plotter.XYs{{X: float64(i) - 0.3, Y: med}, {X: float64(i) + 0.3, Y: med}})
		if err != nil {
			return nil, err
		}
		bar.Width, bar.Color = 2, grey(0x22)
		p.Add(bar, s)
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: fmt.Sprintf("%s: median %s, n = %d", arm, secs(med), len(values))})
	}
	p.X.Min, p.X.Max = -0.6, float64(len(arms))-0.4
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Tick.Length = 0
	return svg(p, 16*vg.Centimeter, 10*vg.Centimeter, said)
}

// spread places point k of n beside others of its column, always at the same place.
func spread(k, n int) float64 {
	if n < 2 {
		return 0
	}
	return 0.22 * (2*float64(k)/float64(n-1) - 1)
}

// point is one probe at its time.
type point struct {
	arm      string
	at, ttft float64 // s
}

// overTimePlot shows a drift, and when the slow probes came.
func overTimePlot(title, said string, points []point) ([]byte, error) {
	p := newPlot(title, "seconds since the first request", "")
	var all []float64
	byArm := map[string]plotter.XYs{}
	latest := 0.0
	for _, x := range points {
		all = append(all, x.ttft)
		latest = max(latest, x.at)
		byArm[x.arm] = append(byArm[x.arm], plotter.XY{X: x.at, Y: x.ttft})
	}
	logSeconds(p, all)
	for _, arm := range slices.Sorted(maps.Keys(byArm)) {
		s, err := plotter.NewScatter(byArm[arm])
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = armGlyph(arm, 2.2)
		p.Add(s)
		if len(byArm) > 1 {
			p.Legend.Add("flag "+arm, s)
		}
	}
	p.Legend.Top = true
	p.X.Min, p.X.Max = 0, latest*1.02+1e-9
	return svg(p, 22*vg.Centimeter, 9*vg.Centimeter, said)
}

// pairLine is one pair: the primary metric in both arms.
type pairLine struct {
	pair    int
	off, on float64
}

// pairPlot joins the two arms of each pair, so that one odd pair cannot hide in
// an average.
func pairPlot(title, said string, pairs []pairLine) ([]byte, error) {
	p := newPlot(title, "", "")
	var all []float64
	for _, l := range pairs {
		all = append(all, l.off, l.on)
	}
	logSeconds(p, all)
	for _, l := range pairs {
		pts := plotter.XYs{{X: 0, Y: l.off}, {X: 1, Y: l.on}}
		line, err := plotter.NewLine(pts)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = grey(0x88), 1.2
		ends, err := plotter.NewScatter(pts)
		if err != nil {
			return nil, err
		}
		ends.GlyphStyleFunc = func(i int) draw.GlyphStyle {
			return armGlyph([]string{results.Off, results.On}[i], 3.4)
		}
		p.Add(line, ends)
	}
	p.X.Min, p.X.Max = -0.4, 1.4
	p.X.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "off"}, {Value: 1, Label: "on"}}
	p.X.Tick.Length = 0
	return svg(p, 13*vg.Centimeter, 10*vg.Centimeter, said)
}

// lane is one request of the timeline.
type lane struct {
	arm   string
	name  string
	sent  float64      // s since the first request of its arm was sent
	end   float64      // last token
	spans [][2]float64 // in which its tokens flowed
	parks [][2]float64 // in which the server had parked it
}

// timelinePlot shows when each request waited (thin line), when its tokens flowed
// (bar) and when it was parked (pale bar), arm above arm on the same clock.
func timelinePlot(title, said string, lanes []lane) ([]byte, error) {
	p := newPlot(title, "seconds since the first request of the arm was sent", "")
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	grid.Vertical.Color = grey(0xe4)
	p.Add(grid)
	var ticks []plot.Tick
	latest := 0.0
	rows := float64(len(lanes))
	for i := range lanes[1:] {
		if lanes[i].arm != lanes[i+1].arm {
			rows++ // an empty row between the arms
		}
	}
	y := rows
	for i, l := range lanes {
		y--
		if i > 0 && lanes[i-1].arm != l.arm {
			y--
		}
		ticks = append(ticks, plot.Tick{Value: y, Label: l.arm + " " + l.name})
		latest = max(latest, l.end)
		wait, err := plotter.NewLine(plotter.XYs{{X: l.sent, Y: y}, {X: l.end, Y: y}})
		if err != nil {
			return nil, err
		}
		wait.Color, wait.Width = grey(0xaa), 1.4
		p.Add(wait)
		for _, kind := range []struct {
			spans  [][2]float64
			colour color.Color
		}{{l.parks, pale(armColour(l.arm))}, {l.spans, armColour(l.arm)}} {
			for _, s := range kind.spans {
				bar, err := plotter.NewLine(plotter.XYs{{X: s[0], Y: y}, {X: s[1], Y: y}})
				if err != nil {
					return nil, err
				}
				bar.Color, bar.Width = kind.colour, 9
				p.Add(bar)
			}
		}
	}
	p.Y.Min, p.Y.Max = -0.7, rows-0.3
	p.X.Min, p.X.Max = 0, latest*1.02
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Length = 0
	return svg(p, 22*vg.Centimeter, font.Length(rows*0.62+3)*vg.Centimeter, said)
}
