MathJax.Hub.Config({
  showMathMenu: false,
  messageStyle: "none",
  SVG: {linebreaks: {automatic: true, width: "container"}}
});
