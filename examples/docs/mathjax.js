MathJax.Hub.Config({
  SVG: {scale: 92},  // the text's letters are larger than those of TeX
  showMathMenu: false,
  messageStyle: "none"
});
